package mirror

import "context"

// Tend does what Run does every ten seconds.
func (m *Mirror) Tend(ctx context.Context) { m.tend(ctx) }
