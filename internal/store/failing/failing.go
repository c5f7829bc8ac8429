// Package failing makes writes of a store fail for chosen requests, for tests of what the
// layers above it and their clients do.
//
// A [Store] is one over another one. An [Around] is called instead of the writes of the
// requests whose context has it. The controllers of the server itself write without a request:
// their context has their name ([By]).
package failing

import (
	"context"

	"github.com/gapless-io/gapless/internal/store"
)

// Around is called instead of a write, which it does by calling write, or leaves out. Its error
// is that of the write, also when that was done.
type Around func(ctx context.Context, write func() error) error

type key struct{}

// With returns a context in which writes go through around, within those of ctx.
func With(ctx context.Context, around Around) context.Context {
	if outer, is := ctx.Value(key{}).(Around); is {
		inner := around
		around = func(ctx context.Context, write func() error) error {
			return outer(ctx, func() error { return inner(ctx, write) })
		}
	}
	return context.WithValue(ctx, key{}, around)
}

type controllerKey struct{}

// By returns a context for all that a controller does: also if it does it for a request.
func By(ctx context.Context, controller string) context.Context {
	return context.WithValue(context.WithValue(ctx, key{}, nil), controllerKey{}, controller)
}

// Store is a store whose writes go through the Around of their context.
type Store struct {
	store.Store

	// Controller is called instead of the writes of a controller, as an Around.
	Controller func(ctx context.Context, name string, t store.Txn, write func() error) error
}

// Commit implements store.Store.
func (s Store) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	around, is := ctx.Value(key{}).(Around)
	if name, by := ctx.Value(controllerKey{}).(string); !is && by {
		around, is = func(ctx context.Context, write func() error) error { return s.Controller(ctx, name, t, write) }, true
	}
	if !is {
		return s.Store.Commit(ctx, t)
	}
	var done store.Committed
	err := around(ctx, func() (err error) {
		done, err = s.Store.Commit(ctx, t)
		return err
	})
	if err != nil {
		return store.Committed{}, err
	}
	return done, nil
}
