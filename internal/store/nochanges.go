package store

import (
	"context"
	"io"
	"sync/atomic"
)

// NoChanges is a stream without changes, because it ends where it begins. The zero value is
// ready.
type NoChanges struct{ closed atomic.Bool }

var _ Changes = (*NoChanges)(nil)

// Next implements Changes: it returns io.EOF, ErrClosed after Close, or ctx's cause.
func (e *NoChanges) Next(ctx context.Context) (Batch, error) {
	switch {
	case ctx.Err() != nil:
		return Batch{}, context.Cause(ctx)
	case e.closed.Load():
		return Batch{}, ErrClosed
	}
	return Batch{}, io.EOF
}

// Close implements Changes.
func (e *NoChanges) Close() error {
	e.closed.Store(true)
	return nil
}
