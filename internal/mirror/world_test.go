package mirror_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the first history, 0 for a new one; with -ops 1 this history alone")
	opsFlag  = flag.Int("ops", 3000, "operations to try at least, in each of the model tests")
	logFlag  = flag.Bool("log", false, "show what is done")
)

// world is a mirror with its collections, and what must be true of it.
type world struct {
	random  *rand.Rand
	disk    *disktest.Disk
	options mirror.Options
	faults  bool // errors of the disk are expected
	ops     int
	seen    map[string]int // how often something happened

	m       *mirror.Mirror
	close   func() error
	oracles []*oracle
	open    map[*oracle]*mirror.Collection
	rv      kube.ResourceVersion // of the source, for all collections
}

func newWorld(seed uint64) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 1)), disk: disktest.New(rand.New(rand.NewPCG(seed, 2))), rv: 1000,
		seen: map[string]int{},
	}
	for i := range 1 + w.random.IntN(3) {
		w.oracles = append(w.oracles, &oracle{
			name: fmt.Sprintf("r%d.v1", i), source: &source{head: w.rv}, gone: map[int64]event{},
		})
	}
	w.options = mirror.Options{
		History:      []time.Duration{0, time.Second, 10 * time.Minute}[w.random.IntN(3)],
		HistoryBytes: []int64{0, 10 << 10}[w.random.IntN(2)],
		SegmentBytes: 8 << 10, GroupWrites: []int{1, 2, 4, 0}[w.random.IntN(4)],
	}
	return w
}

// begin opens the mirror, and lets it run.
func (w *world) begin(t *testing.T) error {
	w.options.FS = w.disk
	if *logFlag {
		w.options.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	m, err := mirror.Open(t.Context(), w.options)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // it ends with close
	w.m, w.open = m, map[*oracle]*mirror.Collection{}
	w.close = func() error {
		stop()
		return errors.Join(<-ended, m.Close())
	}
	for _, o := range w.oracles {
		if err := w.reopen(t.Context(), o); err != nil {
			return errors.Join(err, w.close())
		}
	}
	return nil
}

// reopen opens a collection, and compares what is there with what may be.
func (w *world) reopen(ctx context.Context, o *oracle) error {
	c, err := w.m.Collection(ctx, o.name)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.name, err)
	}
	w.open[o] = c
	o.kept = w.m.Stats().Compacted
	a := o.attempt
	o.attempt = attempt{}
	if a.rewrites && c.Epoch() > 0 && c.Reached() == 0 && o.reached() > 0 {
		w.rewritten(o)
	}
	reached := c.Reached()
	var durable kube.ResourceVersion
	if len(o.rows) > 0 {
		durable = o.rows[len(o.rows)-1].rv
	}
	switch {
	case reached < durable || reached > max(o.reached(), a.to):
		return fmt.Errorf("%s has reached %d after a restart; %d was recorded, the attempt %+v", o.name, reached, durable, a)
	case c.Torn() && (!a.replaces && !o.torn || reached != o.reached()):
		return fmt.Errorf("%s is torn after a restart at %d, was %t at %d, the attempt %+v",
			o.name, reached, o.torn, o.reached(), a)
	case c.Torn():
		w.seen["torn when opened"]++
		o.torn = true
	case a.replaces && reached == a.to:
		w.seen["replaced when opened"]++
		o.replaced(c.Newest(), reached)
	case o.torn:
		return fmt.Errorf("%s is not torn any more after a restart at %d, the attempt %+v", o.name, reached, a)
	default:
		known := o.reached()
		for _, e := range o.source.after(known) {
			if e.rv > reached {
				break
			}
			at, err := c.Position(e.rv, kube.ExpiredWatch)
			if _, expired := errors.AsType[*kube.ExpiredError](err); err != nil && !expired {
				return fmt.Errorf("%s has reached %d after a restart: %w", o.name, reached, err)
			}
			o.recorded(at, e.rv)
			w.seen["changes found when opened"]++
		}
		if a.to > 0 {
			w.seen["attempt when opened"]++
		}
		if len(o.spans) > 0 {
			o.spans[len(o.spans)-1].to = reached
		}
	}
	return nil
}

func (w *world) rewritten(o *oracle) {
	before := max(o.before, o.reached())
	// The source has lost its newest changes, or is another one.
	w.rv = 1 + kube.ResourceVersion(w.random.Uint64N(uint64(w.rv)))
	for _, other := range w.oracles {
		w.rv = max(w.rv, other.source.head*kube.ResourceVersion(min(1, len(w.oracles)-1)))
	}
	*o = oracle{name: o.name, before: before, source: &source{head: w.rv}, gone: map[int64]event{}, kept: o.kept}
}

var injected = []error{syscall.ENOSPC, syscall.EIO, syscall.EMFILE}

// mayFail says that an error is of the faults of the disk.
func (w *world) mayFail(err error) bool {
	if err == nil || !w.faults {
		return false
	}
	return errors.Is(err, disktest.ErrCrashed) ||
		slices.ContainsFunc(injected, func(cause error) bool { return errors.Is(err, cause) })
}

// step does something at random.
func (w *world) step(ctx context.Context) error {
	w.ops++
	r := w.random
	o := w.oracles[min(r.IntN(len(w.oracles)), r.IntN(len(w.oracles)))] // the last is idle mostly
	c := w.open[o]
	switch r.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		w.rv = o.source.change(r, w.rv)
		return w.append(ctx, c, o)
	case 6, 7:
		return w.append(ctx, c, o)
	case 8, 9, 10:
		if r.IntN(3) > 0 {
			w.rv = o.source.change(r, w.rv)
		}
		return w.replace(ctx, c, o)
	case 11:
		c.Progress(w.quiet(o))
		if !o.torn {
			o.reach(w.quiet(o))
		}
	case 12:
		w.m.Tend(ctx)
	case 13, 14:
		return w.compact(ctx)
	case 15:
		w.rv = o.source.change(r, w.rv) // the mirror does not get it yet
	case 16:
		<-time.After(time.Duration(r.Int64N(int64(20 * time.Second))))
	case 17:
		w.m.Release(c)
		if _, err := c.Append(ctx, changesOf([]event{{rv: 1 << 40, name: "a", object: "{}"}}), 0); !errors.Is(err,
			mirror.ErrReleased) {
			return fmt.Errorf("an Append to a released collection: %w", orNil(err))
		}
		return w.reopen(ctx, o)
	case 18:
		return w.misuse(ctx, c, o)
	case 19:
		if r.IntN(3) == 0 {
			return w.rewrite(ctx, c, o)
		}
	}
	return nil
}

// quiet is up to where nothing happened that is not recorded.
func (w *world) quiet(o *oracle) kube.ResourceVersion {
	if rest := o.source.after(o.reached()); len(rest) > 0 {
		return rest[0].rv - 1
	}
	o.source.head = max(o.source.head, w.rv)
	return w.rv
}

// append records some of what happened since.
func (w *world) append(ctx context.Context, c *mirror.Collection, o *oracle) error {
	events := o.source.after(o.reached())
	if n := w.random.IntN(len(events) + 2); n < len(events) {
		for n > 0 && events[n-1].rv == events[n].rv {
			n-- // all of a resourceVersion, or nothing
		}
		events = events[:n]
	}
	if len(events) == 0 && len(o.rows) == 0 {
		return nil
	}
	through := kube.ResourceVersion(0)
	if n := len(events); n > 0 {
		through = events[n-1].rv
	}
	if rest := o.source.after(max(through, o.reached())); w.random.IntN(2) == 0 && len(rest) > 0 {
		through = rest[0].rv - 1
	}
	o.attempt = attempt{to: through}
	positions, err := c.Append(ctx, changesOf(events), through)
	if o.torn {
		if !errors.Is(err, mirror.ErrTorn) && !w.mayFail(err) {
			return fmt.Errorf("an Append to what is torn: %w", orNil(err))
		}
		return nil
	}
	for i, at := range positions {
		if _, gone := o.gone[at]; events[i].object == "" && !gone {
			o.gone[at] = events[i]
		}
		o.recorded(at, events[i].rv)
	}
	if err == nil {
		o.reach(through)
		o.attempt = attempt{}
		if len(positions) != len(events) {
			return fmt.Errorf("%d positions of %d changes", len(positions), len(events))
		}
		return nil
	}
	if w.mayFail(err) {
		w.seen["failed appends"]++
		if len(positions) > 0 {
			w.seen["appends that failed halfway"]++
		}
		return nil
	}
	return err
}

// replace records the difference to a later state.
func (w *world) replace(ctx context.Context, c *mirror.Collection, o *oracle) error {
	has, now, err := w.read(ctx, c, 0)
	if err != nil {
		if w.mayFail(err) {
			return nil
		}
		return err
	}
	to, from := o.source.head, o.reached()
	switch w.random.IntN(6) {
	case 0:
		to = from
	case 1:
		to = from + 1
	case 2:
		to = from + kube.ResourceVersion(w.random.Uint64N(uint64(max(to, from)-from)+1))
	}
	if to = min(to, w.rv); to == 0 || to < from {
		return nil
	}
	o.source.head = max(o.source.head, to)
	want := o.source.at(to)
	var deleted []wire.Key
	var events []event
	for name, e := range has {
		other, there := want[name]
		if !there || other != e && w.random.IntN(3) == 0 { // another object of the same name
			deleted = append(deleted, wire.Key{Name: name})
		}
	}
	for name, e := range want {
		if has[name] != e {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b event) int { return int(a.rv) - int(b.rv) })
	w.random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	back := slices.ContainsFunc(events, func(e event) bool { return e.rv <= from })
	o.attempt = attempt{replaces: true, to: to}
	done, err := c.Replace(ctx, deleted, changesOf(events), to)
	if errors.Is(err, mirror.ErrOrder) && o.torn && back {
		o.attempt = attempt{}
		return nil // an older state than the one that was recorded in part
	}
	o.begins = append(o.begins, now)
	if w.mayFail(err) {
		if !o.torn && c.Torn() {
			w.seen["torn by an error"]++
		}
		o.torn = c.Torn()
		return nil
	}
	if err != nil {
		return err
	}
	o.attempt = attempt{}
	for i, key := range deleted {
		o.gone[done.Changes[i]] = event{rv: from, name: key.Name}
	}
	o.replaced(done.After, to)
	return nil
}

// misuse does what must be refused.
func (w *world) misuse(ctx context.Context, c *mirror.Collection, o *oracle) error {
	from := o.reached()
	e := []event{{rv: from, name: "a", object: "{}"}}
	_, err := c.Append(ctx, changesOf(e), from)
	if !errors.Is(err, mirror.ErrOrder) && !o.torn && from > 0 || err == nil {
		return fmt.Errorf("an Append at what was reached: %w", orNil(err))
	}
	e = append(e, event{rv: from + 2, name: "a"}, event{rv: from + 1, name: "b"})
	if _, err = c.Append(ctx, changesOf(e[1:]), from+2); !errors.Is(err, mirror.ErrOrder) && !o.torn {
		return fmt.Errorf("an Append in another order: %w", orNil(err))
	}
	if _, err = c.Replace(ctx, nil, changesOf(e[:1]), from); !errors.Is(err, mirror.ErrOrder) {
		return fmt.Errorf("another state at what was reached: %w", orNil(err))
	}
	if _, err = c.Replace(ctx, nil, nil, max(from, 1)-1); !errors.Is(err, mirror.ErrOrder) {
		return fmt.Errorf("a state before what was reached: %w", orNil(err))
	}
	return nil
}

func (w *world) compact(ctx context.Context) error {
	now := w.m.Stats().Revision
	back := []int64{1, 5, 50}[w.random.IntN(3)]
	_, err := w.m.Store().Compact(ctx, store.Compaction{UpTo: max(1, now-w.random.Int64N(back)), Purge: w.random.IntN(3) == 0})
	if w.mayFail(err) {
		return nil
	}
	return err
}

func (w *world) rewrite(ctx context.Context, c *mirror.Collection, o *oracle) error {
	o.attempt.rewrites = true
	next, err := w.m.Rewrite(ctx, c)
	if err != nil {
		if w.mayFail(err) {
			return nil
		}
		return err
	}
	w.rewritten(o)
	w.open[o] = next
	o.kept = w.m.Stats().Compacted
	return nil
}
