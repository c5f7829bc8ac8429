package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Writer changes one object over and over, over a connection of its own: each
// write is a PUT with the resourceVersion of the one before, as controllers do.
type Writer struct {
	Object  Object
	Key     int
	Seq     int64      // of the next write
	Latency *Histogram // until the answer; nil does not measure
	Conn    wire.Conn

	body   []byte
	answer refilled
}

// refilled keeps one body.
type refilled []byte

func (r *refilled) Write(p []byte) (int, error) {
	*r = append(*r, p...)
	return len(p), nil
}

// Create makes the object and notes its resourceVersion.
func (w *Writer) Create() error {
	w.Object.Version = ""
	return w.send(http.MethodPost, w.Object.Collection()+w.manager("?"))
}

// Update changes the object.
func (w *Writer) Update() error {
	return w.send(http.MethodPut, w.path()+w.manager("?"))
}

// Patch changes the object with a merge patch of its content, whatever its
// resourceVersion is.
func (w *Writer) Patch() error {
	w.body = appendPatch(w.body[:0], Stamp{Key: w.Key, Seq: w.Seq})
	return w.do(wire.Request{Method: http.MethodPatch, Path: w.path(), Type: "application/merge-patch+json"})
}

// path is that of the object.
func (w *Writer) path() string { return w.Object.Collection() + "/" + w.Object.Name }

// manager is the parameter of the field manager, after a separator; empty if the server
// chooses it.
func (w *Writer) manager(separator string) string {
	if w.Object.Manager == "" {
		return ""
	}
	return separator + "fieldManager=" + w.Object.Manager
}

func (w *Writer) send(method, path string) error {
	w.body = w.Object.append(w.body[:0], Stamp{Key: w.Key, Seq: w.Seq})
	return w.do(wire.Request{Method: method, Path: path})
}

// do sends the body as one write more.
func (w *Writer) do(r wire.Request) error {
	if err := w.request(r); err != nil {
		return err
	}
	w.Seq++
	return nil
}

// request sends the body and notes the resourceVersion of the answer.
func (w *Writer) request(r wire.Request) error {
	began, method, path := time.Now(), r.Method, r.Path
	r.Body = w.body
	w.answer = w.answer[:0]
	if _, err := w.Conn.Do(r, &w.answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if w.Latency != nil {
		w.Latency.Add(time.Since(began))
	}
	if w.Object.Version = Version(w.answer); w.Object.Version == "" {
		return fmt.Errorf("%s %s: no resourceVersion in the answer %.500q", method, path, w.answer)
	}
	return nil
}

// Writers is a set of writers with the keys 0, 1, 2, …
type Writers []*Writer

// NewWriters creates n objects like the first, whose names begin with its name, and a
// writer for each. Close it.
func NewWriters(ctx context.Context, t wire.Target, n int, like Object) (Writers, error) {
	all, err := Dial(ctx, t, n, like)
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		if err := w.Create(); err != nil {
			all.Close()
			return nil, err
		}
	}
	return all, nil
}

// Dial returns the writers that NewWriters returns, before they have written anything.
func Dial(ctx context.Context, t wire.Target, n int, like Object) (Writers, error) {
	all := make(Writers, 0, n)
	for key := range n {
		conn, err := t.Dial(ctx, wire.HTTP1)
		if err != nil {
			all.Close()
			return nil, err
		}
		w := &Writer{Object: like, Key: key, Conn: conn, Latency: &Histogram{}}
		w.Object.Name, w.Object.Shard = fmt.Sprintf("%s-%05d", like.Name, key), strconv.Itoa(key)
		all = append(all, w)
	}
	return all, nil
}

// Newest returns the highest resourceVersion that a writer received.
func (all Writers) Newest() string {
	versions := make([]uint64, 0, len(all))
	for _, w := range all {
		v, err := strconv.ParseUint(w.Object.Version, 10, 64)
		if err == nil { // a server that answers with something else fails elsewhere
			versions = append(versions, v)
		}
	}
	return strconv.FormatUint(slices.Max(versions), 10)
}

// Written returns the sum of what all have written.
func (all Writers) Written() int64 {
	var n int64
	for _, w := range all {
		n += w.Seq
	}
	return n
}

// Close closes the connections.
func (all Writers) Close() {
	for _, w := range all {
		w.Conn.Close()
	}
}

// Flood lets every writer write as fast as it is answered, for a time, but at least
// once.
func (all Writers) Flood(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, w := range all {
		wg.Go(func() {
			for errs[i] == nil {
				errs[i] = w.Update()
				if time.Now().After(end) || ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), context.Cause(ctx))
}

// Pace lets the first writer write n times, once in every interval.
func (all Writers) Pace(ctx context.Context, interval time.Duration, n int) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for range n {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if err := all[0].Update(); err != nil {
			return err
		}
	}
	return nil
}

// Connect opens n connections over HTTP/1.1. The returned function closes them.
func Connect(ctx context.Context, t wire.Target, n int) ([]wire.Conn, func(), error) {
	conns := make([]wire.Conn, 0, n)
	hangUp := func() {
		for _, c := range conns {
			c.Close()
		}
	}
	for range n {
		c, err := t.Dial(ctx, wire.HTTP1)
		if err != nil {
			hangUp()
			return nil, nil, err
		}
		conns = append(conns, c)
	}
	return conns, hangUp, nil
}

// Make creates the objects of all writers, from a number of clients that have a
// connection each.
func Make(ctx context.Context, t wire.Target, clients int, all []*Writer) error {
	return Each(ctx, t, clients, all, (*Writer).Create)
}

// Each lets each writer write once, as Make does.
func Each(ctx context.Context, t wire.Target, clients int, all []*Writer, write func(w *Writer) error) error {
	conns, hangUp, err := Connect(ctx, t, clients)
	if err != nil {
		return err
	}
	defer hangUp()
	return InParallel(ctx, clients, len(all), func(_ context.Context, worker, i int) error {
		w := all[i]
		w.Conn = conns[worker]
		defer func() { w.Conn = nil }()
		return write(w)
	})
}
