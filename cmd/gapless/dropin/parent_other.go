//go:build !unix

package dropin

import "context"

// whileParentLives returns ctx: this system does not tell a process that its parent has ended.
func whileParentLives(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}
