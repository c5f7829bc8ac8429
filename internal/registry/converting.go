package registry

import (
	"context"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/convert"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// converting is a watch whose objects must be converted to its version. Events that were read
// but not converted yet are not passed by its position. A conversion goes on while Next has
// returned for another reason: how often that happens does not matter to a slow webhook. It
// is used by one goroutine at a time, except Close.
type converting struct {
	stored *watch
	reader *Reader
	after  *watchcache.Selection // of converted objects; nil: all are selected

	events  []wire.WatchEvent    // read, and not converted
	entries []*watchcache.Entry  // of the events, if after is not nil and they are changes
	at      kube.ResourceVersion // the position before events
	result  chan converted       // of the conversion under way; nil: there is none
	life    context.Context      //nolint:containedctx // of the conversions: the watch is the call
	end     context.CancelFunc   // ends life
	failed  error                // what ended the watch
}

// converted is the result of converting the first events.
type converted struct {
	events []wire.WatchEvent // those that are selected
	n      int               // how many events were converted
	err    error
}

var _ wire.Watch = (*converting)(nil)

// newConverting returns a watch of converted objects. It lives until Close, and not only as
// long as the call that opens it.
func newConverting(ctx context.Context, stored *watch, reader *Reader, after *watchcache.Selection) *converting {
	w := &converting{stored: stored, reader: reader, after: after}
	w.life, w.end = context.WithCancel(context.WithoutCancel(ctx))
	return w
}

// Next implements wire.Watch. When a conversion fails, Next returns the events before, and
// then the error, which is the end of the watch.
func (w *converting) Next(ctx context.Context) ([]wire.WatchEvent, error) {
	for w.failed == nil {
		if w.result == nil && len(w.events) == 0 {
			if err := w.read(ctx); err != nil {
				return nil, err
			}
		}
		if w.result == nil {
			w.begin()
		}
		select {
		case done := <-w.result:
			w.result = nil
			w.pass(done)
			if len(done.events) > 0 {
				return done.events, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return nil, w.failed
}

// read reads the next events. Until they are converted, the position is the one before.
func (w *converting) read(ctx context.Context) error {
	w.at = w.stored.Position()
	events, err := w.stored.Next(ctx)
	if err != nil {
		return err
	}
	w.events, w.entries = events, nil
	if w.after != nil && w.at != 0 {
		w.entries = w.stored.cursor.Entries()
	}
	return nil
}

// pass goes on to the events after those that were converted.
func (w *converting) pass(done converted) {
	if w.failed = done.err; done.n == 0 {
		return
	}
	if w.at != 0 {
		w.at = max(w.at, w.stored.cursor.Resumable(w.complete(done.n)))
	}
	w.events = w.events[done.n:]
	if w.entries != nil {
		w.entries = w.entries[done.n:]
	}
}

// complete returns the resourceVersion up to which the first n events are all that there are.
func (w *converting) complete(n int) kube.ResourceVersion {
	rv := w.events[n-1].ResourceVersion
	if n < len(w.events) && w.events[n].ResourceVersion == rv {
		return rv - 1 // others of it follow
	}
	return rv
}

// begin converts the events in a goroutine of the watch, which ends with the conversion or
// with Close.
func (w *converting) begin() {
	result := make(chan converted, 1)
	w.result = result
	c := conversion{
		converter: w.reader.converter, resource: w.stored.resource, after: w.after, events: w.events, entries: w.entries,
	}
	if now, served := w.reader.defined(c.resource); served {
		c.resource = now // the definition may have changed since the watch was opened
	}
	go func() { result <- c.run(w.life) }()
}

// Position implements wire.Watch.
func (w *converting) Position() kube.ResourceVersion {
	if len(w.events) > 0 {
		return w.at
	}
	return w.stored.Position()
}

// Close implements wire.Watch.
func (w *converting) Close() {
	w.end()
	w.stored.Close()
}

// conversion converts some events of a watch.
type conversion struct {
	converter *convert.Converter
	resource  *kinds.Resource
	after     *watchcache.Selection
	events    []wire.WatchEvent
	entries   []*watchcache.Entry
}

// run converts as many of the events as can be: all of them, or those before the one that
// cannot be converted, which it finds by halves.
func (c *conversion) run(ctx context.Context) converted {
	n, passed := len(c.events), 0
	var events []wire.WatchEvent
	for {
		some, err := c.convert(ctx, passed, n)
		switch {
		case err == nil && n == len(c.events):
			return converted{events: append(events, some...), n: n}
		case err == nil:
			events, passed, n = append(events, some...), n, len(c.events)
		case n-passed == 1 || ctx.Err() != nil || !convert.Refused(err):
			return converted{events: events, n: passed, err: err}
		default:
			n = passed + (n-passed)/2
		}
	}
}

// convert returns what a watcher sees of the events [from, to).
func (c *conversion) convert(ctx context.Context, from, to int) ([]wire.WatchEvent, error) {
	events := c.events[from:to]
	var objects []*wire.Object // the object of each event, and the one before
	for i, e := range events {
		if e.Object != nil {
			objects = append(objects, e.Object)
		}
		if p := c.previous(from + i); p != nil {
			objects = append(objects, p)
		}
	}
	objects, err := c.converter.Show(ctx, c.resource, objects...)
	if err != nil {
		return nil, err
	}
	shown := make([]wire.WatchEvent, 0, len(events))
	for i, e := range events {
		var previous *wire.Object
		if e.Object != nil {
			e.Object, objects = objects[0], objects[1:]
		}
		if c.previous(from+i) != nil {
			previous, objects = objects[0], objects[1:]
		}
		if e, selected := c.event(e, previous, from+i); selected {
			shown = append(shown, e)
		}
	}
	return shown, nil
}

// previous returns the object before a change, if it decides what a watcher sees.
func (c *conversion) previous(i int) *wire.Object {
	if c.entries == nil || c.entries[i].Deleted {
		return nil
	}
	return c.entries[i].Previous
}

// event returns what a watcher of the selection sees of a converted event
// (watchcache.Selection.transition).
func (c *conversion) event(e wire.WatchEvent, previous *wire.Object, i int) (shown wire.WatchEvent, selected bool) {
	if c.after == nil || e.Object == nil {
		return e, true
	}
	matches := c.after.Matches(e.Object)
	if c.entries == nil {
		return e, matches // of the initial state
	}
	entry := c.entries[i]
	is, was := matches && !entry.Deleted, matches && entry.Deleted
	if previous != nil {
		was = c.after.Matches(previous)
	}
	switch {
	case is && was:
		e.Type = kube.Modified
	case is:
		e.Type = kube.Added
	case was:
		e.Type = kube.Deleted
		if !entry.Deleted {
			// The last state that the watcher saw, with the rv of the write that removed it.
			e.Object = previous.WithResourceVersion(entry.RV)
		}
	default:
		return e, false
	}
	return e, true
}
