//go:build !linux

package processtest

import "context"

// reserve only chooses a port: another program can get it while the server is being restarted.
func reserve(ctx context.Context) (*port, error) { return choose(ctx) }
