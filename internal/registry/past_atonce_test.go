package registry_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// busy is a journal that is written and compacted while others ask for its past.
type busy struct {
	*journal

	mu                sync.Mutex // guards the journal's changes
	answered, refused atomic.Int64
}

// write makes a change; a reader that has seen it finds it in the journal.
func (b *busy) write(r *rand.Rand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := journalChange{namespace: []string{"a", "a-b"}[r.IntN(2)], name: fmt.Sprintf("o%d", r.IntN(5)), app: "web"}
	if b.now[c.namespace+"/"+c.name] != nil && r.IntN(4) == 0 {
		c.app = ""
	}
	b.journal.write(c, r.IntN(300))
}

// moment returns a revision between the first one and the last one.
func (b *busy) moment(r *rand.Rand) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes[r.IntN(len(b.changes))].rv
}

// between are the events of a span, as lines, newest first if that is wanted.
func (b *busy) between(after, upTo kube.ResourceVersion, sel choice, newest bool) (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.events(int64(after), sel)
	lines = all[:len(all)-len(b.events(int64(upTo), sel))]
	if newest {
		slices.Reverse(lines)
	}
	return lines
}

// state is what there was at a revision, as lines.
func (b *busy) state(rv kube.ResourceVersion, namespace string) (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := map[string]*journalChange{}
	for i := range b.changes {
		if c := &b.changes[i]; c.rv <= int64(rv) && c.namespace == namespace {
			last[c.name] = c
		}
	}
	for _, c := range last {
		if c.app != "" {
			lines = append(lines, fmt.Sprintf("%s/%s %d", c.namespace, c.name, c.rv))
		}
	}
	slices.Sort(lines)
	return lines
}

// asks asks for a span of changes, in pages.
func (b *busy) asks(r *rand.Rand) error {
	o := wire.ChangesOptions{ListOptions: options(nil), Newest: r.IntN(2) == 0, Previous: r.IntN(2) == 0}
	o.Limit = 1 + r.Int64N(30)
	if r.IntN(3) > 0 {
		o.After.RV = kube.ResourceVersion(b.moment(r))
	}
	if upTo := kube.ResourceVersion(b.moment(r)); r.IntN(3) > 0 && upTo > o.After.RV {
		o.UpTo.RV = upTo
	}
	sel := choice{namespace: []string{"", "a", "a-b"}[r.IntN(3)]}
	if r.IntN(3) == 0 {
		sel.name = fmt.Sprintf("o%d", r.IntN(5))
		sel.options(&o.ListOptions)
	}
	for range 1 + r.IntN(5) {
		page, err := b.Changes(b.t.Context(), b.at("configmaps", sel.namespace), o)
		if err != nil {
			e := expired(err)
			switch after := max(o.After.RV, kube.ResourceVersion(o.Token.After)); {
			case e == nil, after == 0 && o.UpTo.IsZero() && o.Token.IsZero():
				return fmt.Errorf("changes %+v of %+v: %w", o, sel, err)
			case e.Oldest <= after:
				return fmt.Errorf("changes %+v of %+v are refused, but reach back to %d", o, sel, e.Oldest)
			}
			b.refused.Add(1)
			return nil
		}
		var got []string
		for _, c := range page.Items {
			got = append(got, fmt.Sprintf("%s %d %s %s", c.Type, c.ResourceVersion, c.Object.Key(), c.Object.Labels()["app"]))
		}
		if want := b.between(page.After, page.UpTo, sel, o.Newest); !slices.Equal(got, want) {
			return fmt.Errorf("changes %+v of %+v after %d up to %d are %q, want %q", o, sel, page.After, page.UpTo, got, want)
		}
		b.answered.Add(1)
		if page.Next.IsZero() {
			return nil
		}
		o.Token, o.After, o.UpTo = page.Next, wire.Moment{}, wire.Moment{}
	}
	return nil
}

// lists asks for a state, and for one object of it.
func (b *busy) lists(r *rand.Rand) error {
	rv, namespace := kube.ResourceVersion(b.moment(r)), []string{"a", "a-b"}[r.IntN(2)]
	list, err := b.List(b.t.Context(), b.at("configmaps", namespace), options(func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match = rv.String(), wire.MatchExact
	}))
	var got []string
	if err == nil {
		for o, failed := range list.Items {
			if err = failed; err != nil {
				break
			}
			got = append(got, fmt.Sprintf("%s %d", o.Key(), o.ResourceVersion()))
		}
	}
	want := b.state(rv, namespace)
	if err == nil && !slices.Equal(got, want) {
		return fmt.Errorf("at %d there were %q, want %q", rv, got, want)
	}
	name := fmt.Sprintf("o%d", r.IntN(5))
	o, at, second := b.GetPast(b.t.Context(), b.at("configmaps", namespace, name), wire.Moment{RV: rv})
	if second == nil && (at != rv || !slices.Contains(want, fmt.Sprintf("%s %d", o.Key(), o.ResourceVersion()))) {
		return fmt.Errorf("at %d there was %s at %d, want one of %q", rv, o.Key(), o.ResourceVersion(), want)
	}
	for _, err := range []error{err, second} {
		switch e := expired(err); {
		case err == nil, wire.StatusOf(err).Code == 404:
			b.answered.Add(1)
		case e == nil:
			return fmt.Errorf("the state at %d: %w", rv, err)
		case e.Oldest <= rv:
			return fmt.Errorf("the state at %d is refused, but they reach back to %d", rv, e.Oldest)
		default:
			b.refused.Add(1)
		}
	}
	return nil
}

// TestThePastIsTrueWhileItIsWrittenAndRemoved asks for spans of changes, states and objects while the resource is
// written, and its history is compacted from time to time: what is answered is what was, without a gap, and what is refused
// was removed.
func TestThePastIsTrueWhileItIsWrittenAndRemoved(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := &busy{journal: newJournal(serve(t))}
	b.write(rand.New(rand.NewPCG(seed, 0)))
	b.settle()
	var all sync.WaitGroup
	var over atomic.Bool
	actor := func(n uint64, act func(r *rand.Rand) error) {
		r := rand.New(rand.NewPCG(seed, n))
		all.Go(func() {
			for !over.Load() {
				if err := act(r); err != nil {
					over.Store(true)
					t.Errorf("ask for the past: %v", err)
				}
			}
		})
	}
	for n := range uint64(2) {
		actor(2*n+1, b.asks)
		actor(2*n+2, b.lists)
	}
	actor(100, func(r *rand.Rand) error {
		_, err := b.Compact(t.Context(), store.Compaction{UpTo: b.moment(r), Purge: r.IntN(4) == 0})
		if _, ahead := errors.AsType[*store.FutureRevisionError](err); ahead {
			return nil
		}
		return err
	})
	r := rand.New(rand.NewPCG(seed, 200))
	for n := 0; (n < 3000 || n < 100_000 && b.refused.Load() == 0) && !over.Load(); n++ {
		b.write(r)
	}
	over.Store(true)
	all.Wait()
	t.Logf("%d answered, %d refused", b.answered.Load(), b.refused.Load())
	if b.answered.Load() == 0 || b.refused.Load() == 0 {
		t.Error("the past was not answered, or never refused")
	}
}
