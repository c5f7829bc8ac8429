package store

import (
	"context"
	"io"
	"sync/atomic"
)

// EndedFeed is a feed without changes, because it ends where it begins. The zero value is
// ready.
type EndedFeed struct{ closed atomic.Bool }

var _ Feed = (*EndedFeed)(nil)

// Next implements Feed: it returns io.EOF, ErrClosed after Close, or ctx's cause.
func (e *EndedFeed) Next(ctx context.Context) (Batch, error) {
	switch {
	case ctx.Err() != nil:
		return Batch{}, context.Cause(ctx)
	case e.closed.Load():
		return Batch{}, ErrClosed
	}
	return Batch{}, io.EOF
}

// Close implements Feed.
func (e *EndedFeed) Close() error {
	e.closed.Store(true)
	return nil
}
