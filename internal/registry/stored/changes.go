package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Bounds of one page of changes. changesBytes is of its objects, but a page has at least the changes of one revision.
// maxRead is after how many changes, whose values were read, a page ends that has less: most are not selected.
const (
	changesBytes = 8 << 20
	maxRead      = 16 << 10
)

// Span says which changes of a resource's history are wanted: those after After, up to UpTo.
type Span struct {
	After, UpTo kube.ResourceVersion
	Newest      bool // the last ones, newest first, instead of the first ones
	Limit       int  // how many at most, besides others of the same revision; at least 1
	Selection   *watchcache.Selection
	Previous    bool // the object before each change is required
}

// Changed is a change, and when it was committed.
type Changed struct {
	*watchcache.Entry

	Time time.Time
}

// Changes are some of a span, in the order that it wants: all that are selected after After, up to UpTo.
type Changes struct {
	Changed     []Changed
	After, UpTo kube.ResourceVersion
	Holes       []watchcache.Hole
}

// clocksDiffer is by how much the clock of a client may be ahead: a time is waited for that long, as a
// resourceVersion is.
const clocksDiffer = 3 * time.Second

// CommittedBy returns the resourceVersion that the resource had at a time, which is that of a parameter: that of its last
// change by then. It waits until the time has come. Errors: 422 for one that is ahead by more than clocksDiffer,
// *kube.ExpiredError with RequestedTime, ctx's cause, those of the store.
func (r *Resource) CommittedBy(ctx context.Context, parameter string, at time.Time) (kube.ResourceVersion, error) {
	if ahead := time.Until(at); ahead > clocksDiffer {
		return 0, wire.FutureTime(parameter, at, time.Now())
	} else if ahead > 0 {
		timer := time.NewTimer(ahead)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	page, err := r.source.store.Read(ctx, store.Query{
		Start: r.prefix, End: store.PrefixEnd(r.prefix), At: at, Limit: 1,
		Want: func(string, int64) bool { return false },
	})
	rv := kube.ResourceVersion(page.Revision)
	if err == nil {
		err = r.lived(rv, kube.ExpiredList)
	} else {
		err = r.failed(err, 0, kube.ExpiredList)
	}
	if expired, is := errors.AsType[*kube.ExpiredError](err); is {
		own := *expired
		own.Requested, own.RequestedTime = 0, at
		return 0, &own
	}
	return rv, err
}

// Changes reads the next changes of a span. It holds no more than changesBytes of objects and a batch of the
// store, and reads no more values than it needs for that, or maxRead. It may return none that is selected,
// and not have come to the end. Errors: *kube.ExpiredError, ctx's cause, those of the store.
func (r *Resource) Changes(ctx context.Context, s Span) (Changes, error) {
	release, err := r.source.acquire(ctx)
	if err != nil {
		return Changes{}, err
	}
	defer release()
	if err := r.lived(s.After, kube.ExpiredWatch); err != nil {
		return Changes{}, err
	}
	of := spanReader{resource: r, span: s, found: Changes{After: s.After, UpTo: s.UpTo}}
	if s.Newest {
		err = of.backward(ctx)
	} else {
		err = of.forward(ctx)
	}
	if err != nil {
		return Changes{}, r.failed(err, s.After, kube.ExpiredWatch)
	}
	return of.found, nil
}

// spanReader reads a span.
type spanReader struct {
	resource *Resource
	span     Span
	found    Changes
	bytes    int
	read     int // how many changes have been looked at
}

// full reports whether the page ends before a change at another revision.
func (s *spanReader) full() bool {
	return len(s.found.Changed) >= s.span.Limit || s.bytes >= changesBytes || s.read >= maxRead
}

// forward reads the first changes.
func (s *spanReader) forward(ctx context.Context) error {
	return s.each(ctx, s.span.After, s.span.UpTo, s.span.Limit, func(c Changed, selected bool) bool {
		if n := len(s.found.Changed); s.full() && (n == 0 || s.found.Changed[n-1].RV != c.RV) {
			s.found.UpTo = c.RV - 1
			return false
		}
		if selected {
			s.add(c)
		}
		return true
	})
}

func (s *spanReader) add(c Changed) {
	s.found.Changed = append(s.found.Changed, c)
	s.bytes += c.bytes()
}

func (c Changed) bytes() int {
	n := c.Object.Size()
	if c.Previous != nil {
		n += c.Previous.Size()
	}
	return n
}

// backward reads the last changes. A store reads forward: so it reads windows before each other, each twice as
// large as the one after it as long as they have little.
func (s *spanReader) backward(ctx context.Context) error {
	width := kube.ResourceVersion(s.span.Limit)
	for upTo := s.span.UpTo; upTo > s.span.After; {
		after := s.span.After
		if upTo-after > width {
			after = upTo - width
		}
		looked := s.read
		window, err := s.window(ctx, after, upTo)
		if err != nil {
			return err
		}
		slices.Reverse(window)
		for _, c := range window {
			if n := len(s.found.Changed); s.full() && n > 0 && s.found.Changed[n-1].RV != c.RV {
				s.found.After = c.RV
				return nil
			}
			s.add(c)
		}
		s.found.After = after
		if s.full() {
			return nil
		}
		if s.read-looked < maxRead/4 {
			width *= 2
		}
		upTo = after
	}
	return nil
}

// window returns the selected changes of a range, of which it drops the oldest if they are more than a page has.
// Then the page does not reach the beginning of the range: it is full before.
func (s *spanReader) window(ctx context.Context, after, upTo kube.ResourceVersion) (window []Changed, err error) {
	bytes := 0
	err = s.each(ctx, after, upTo, 0, func(c Changed, selected bool) bool {
		if !selected {
			return true
		}
		window = append(window, c)
		bytes += c.bytes()
		for len(window) > s.span.Limit+1 && window[0].RV != c.RV || bytes > 2*changesBytes && window[0].RV != c.RV {
			bytes -= window[0].bytes()
			window = window[1:]
		}
		return true
	})
	return window, err
}

// each gives the changes of a range to take, in order, until that returns false, and says which are selected.
// With a limit it reads no values beyond so many.
func (s *spanReader) each(
	ctx context.Context, after, upTo kube.ResourceVersion, limit int, take func(c Changed, selected bool) bool,
) error {
	r, q := s.resource, watchcache.Range{After: after, UpTo: upTo, Selection: s.span.Selection}
	if after != s.span.After {
		q.Since = s.span.After
	}
	from := r.from(q)
	if limit > 0 {
		from.Limit = limit + 1
	}
	inside := s.span.Selection.LooksInside()
	from.Want = func(c store.Change) (value, previous bool) {
		return !c.Deleted, c.Previous != nil && (c.Deleted || s.span.Previous || inside)
	}
	from.Buffer = r.source.buffers.Get().(*store.Buffer) //nolint:forcetypeassert // the pool holds nothing else
	defer r.source.buffers.Put(from.Buffer)
	feed, err := r.source.store.Changes(ctx, from)
	if err != nil {
		return fmt.Errorf("open the changes: %w", err)
	}
	defer func() { _ = feed.Close() }() // it holds no more than its position
	for {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the changes: %w", err)
		}
		s.addHoles(batch)
		for _, change := range batch.Changes {
			c, err := s.changed(change)
			if err != nil {
				return err
			}
			s.read++
			if _, selected := s.span.Selection.Event(c.Entry); !take(c, selected) {
				return nil
			}
		}
	}
}

// addHoles adds those of a batch. One can be in two batches.
func (s *spanReader) addHoles(batch store.Batch) {
	for _, h := range holesOf(batch) {
		if !slices.Contains(s.found.Holes, h) {
			s.found.Holes = append(s.found.Holes, h)
		}
	}
}

// changed decodes a change.
func (s *spanReader) changed(c store.Change) (Changed, error) {
	object, previous, err := s.resource.objects(c)
	if err != nil {
		return Changed{}, err
	}
	e, err := s.resource.entryOf(c, object, previous)
	return Changed{e, c.Time}, err
}
