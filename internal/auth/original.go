package auth

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
)

type originalKey struct{}

// WithOriginal returns a context for a request that runs as another user than u, who sent it.
func WithOriginal(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, originalKey{}, u)
}

// Original returns who sent a request that runs as another user, by impersonation; nil for a request
// that runs as who sent it. The audit log names both, and limits count for who sent it.
func Original(ctx context.Context) user.Info {
	u, _ := ctx.Value(originalKey{}).(user.Info)
	return u
}
