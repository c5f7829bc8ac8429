package mirror_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

// check compares all that a collection says with the oracle.
func (w *world) check(ctx context.Context, c *mirror.Collection, o *oracle) error {
	if c.Torn() != o.torn || c.Reached() != o.reached() {
		return fmt.Errorf("torn %t and reached %d, want %t and %d", c.Torn(), c.Reached(), o.torn, o.reached())
	}
	all := o.interesting()
	for i, rv := range all {
		at, err := c.Position(rv, kube.ExpiredWatch)
		if err := w.checkAnswer(c, o, rv, err); err != nil {
			return fmt.Errorf("Position(%d) is %d: %w", rv, at, err)
		}
		if err == nil && (len(all)-i < 3 || w.random.IntN(len(all)) < 4) {
			if err := w.checkPosition(ctx, c, o, row{at, rv}); err != nil {
				return fmt.Errorf("resourceVersion %d at %d: %w", rv, at, err)
			}
		}
	}
	return nil
}

// checkAnswer checks the error of Position.
func (w *world) checkAnswer(c *mirror.Collection, o *oracle, rv kube.ResourceVersion, err error) error {
	expired, isExpired := errors.AsType[*kube.ExpiredError](err)
	_, ahead := errors.AsType[*kube.TooLargeResourceVersionError](err)
	switch {
	case rv > o.reached() && rv <= o.before:
		if !isExpired || expired.Reason != kube.ReasonReplaced {
			return fmt.Errorf("%w, want that the history was replaced", orNil(err))
		}
	case rv > o.reached():
		if !ahead {
			return fmt.Errorf("%w, want that it is too large", orNil(err))
		}
	case isExpired && (!o.known(rv) || !o.mustHave(rv, w.floor(c))):
	case err != nil || !o.known(rv):
		return fmt.Errorf("%w; known %t, floor %d, compacted %d when it was opened; %v %v %v",
			orNil(err), o.known(rv), w.floor(c), o.kept, o.rows, o.begins, o.spans)
	}
	return nil
}

var errNone = errors.New("no error")

func orNil(err error) error { return cmp.Or(err, errNone) }

func (w *world) floor(c *mirror.Collection) int64 { return w.m.Stats().Floors[c.Key()].Revision }

// read returns the state of a collection at a revision of the log, 0 for the latest.
func (w *world) read(ctx context.Context, c *mirror.Collection, revision int64) (state, int64, error) {
	prefix := c.Key() + "/"
	page, err := w.m.Store().Read(ctx, store.Query{Start: prefix, End: store.PrefixEnd(prefix), AtRevision: revision})
	if err != nil {
		return nil, 0, err
	}
	result := state{}
	for _, r := range page.Records {
		e, err := w.event(r.Key, r.Value)
		if err != nil {
			return nil, 0, err
		}
		result.apply(e)
	}
	return result, page.Revision, nil
}

func (w *world) event(key string, value []byte) (event, error) {
	_, name, _ := strings.Cut(key, "/")
	rv, object, err := w.m.Stored(value)
	return event{rv: rv, name: name, object: string(object)}, err
}

// checkPosition checks the state at a position, and what a reader sees who goes on from there.
func (w *world) checkPosition(ctx context.Context, c *mirror.Collection, o *oracle, at row) error {
	version := c.Version(at.rev)
	again, err := c.Position(version, kube.ExpiredWatch)
	if err != nil || again < at.rev || !maps.Equal(o.source.at(version), o.source.at(at.rv)) {
		return fmt.Errorf("its Version is %d, which is at %d: %w", version, again, orNil(err))
	}
	has, _, err := w.read(ctx, c, at.rev)
	if w.mayFail(err) {
		return nil
	}
	if _, compacted := errors.AsType[*store.CompactedError](err); compacted && !o.mustHave(at.rv, w.floor(c)) {
		return nil
	}
	if err != nil {
		return err
	}
	if want := o.source.at(at.rv); !maps.Equal(has, want) {
		return fmt.Errorf("the state is\n%v, want\n%v", has, want)
	}
	want, now, err := w.read(ctx, c, 0)
	if w.mayFail(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.follow(ctx, c, o, store.From{After: at.rev, UpTo: now}, has); err != nil {
		if _, compacted := errors.AsType[*store.CompactedError](err); compacted && !o.mustHave(at.rv, w.floor(c)) ||
			w.mayFail(err) {
			return nil
		}
		return fmt.Errorf("changes after %d: %w", at.rev, err)
	}
	if !maps.Equal(has, want) {
		return fmt.Errorf("the changes after it lead to\n%v, but the state is\n%v", has, want)
	}
	if source := o.source.at(o.reached()); !o.torn && !maps.Equal(has, source) {
		return fmt.Errorf("the changes after it lead to\n%v, but the source has\n%v", has, source)
	}
	return nil
}

// follow applies changes to a state, as a reader does.
func (w *world) follow(ctx context.Context, c *mirror.Collection, o *oracle, from store.From, has state) error {
	from.Prefix = c.Key() + "/"
	feed, err := w.m.Store().Changes(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = feed.Close() }()
	shown := kube.ResourceVersion(0) // of the change before
	was := maps.Clone(has)
	for {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, change := range batch.Changes {
			e, err := w.shown(c, o, change)
			if err != nil {
				return err
			}
			// A reader who goes on at the source after the change before, if that is all of
			// its resourceVersion.
			if shown > 0 && shown != e.rv {
				if err := o.promises(was, shown); err != nil {
					return fmt.Errorf("before revision %d: %w", change.Revision, err)
				}
			}
			shown = e.rv
			has.apply(e)
			was.apply(e)
			if err := o.promises(has, c.Version(change.Revision)); err != nil {
				return fmt.Errorf("Version(%d) is %d: %w", change.Revision, c.Version(change.Revision), err)
			}
		}
	}
}

// shown returns a change as a reader sees it.
func (w *world) shown(c *mirror.Collection, o *oracle, change store.Change) (event, error) {
	if !change.Deleted {
		return w.event(change.Key, change.Value)
	}
	_, name, _ := strings.Cut(change.Key, "/")
	rv, err := w.m.Deleted(change.Key, change.Revision)
	if err != nil {
		return event{}, err // nothing is compacted meanwhile
	}
	e := event{name: name, rv: rv}
	if want, known := o.gone[change.Revision]; known && want != e {
		return e, fmt.Errorf("revision %d deletes %v, want %v", change.Revision, e, want)
	}
	if limit := c.Reached(); e.rv == 0 || e.rv > limit {
		return e, fmt.Errorf("revision %d deletes at %d, reached is %d", change.Revision, e.rv, limit)
	}
	return e, nil
}
