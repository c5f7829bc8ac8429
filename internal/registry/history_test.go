package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// journal is a history of config maps, as a list.
type journal struct {
	*server
	changes []journalChange
	now     map[string]*journalChange
}

type journalChange struct {
	rv        int64
	namespace string
	name      string
	app       string // "" for a deletion
	before    *journalChange
}

// write commits a change of a config map of some size; app "" deletes it.
func (p *journal) write(c journalChange, size int) int64 {
	p.t.Helper()
	key := c.namespace + "/" + c.name
	txn := store.Txn{Key: "configmaps/" + key, Delete: c.app == ""}
	if c.before = p.now[key]; c.before != nil {
		txn.ExpectedModRevision = c.before.rv
	}
	txn.Value = fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,"uid":"u","labels":{"app":%q}},"data":{"a":%q}}`,
		c.name, c.namespace, c.app, strings.Repeat("x", size))
	done, err := p.log.Commit(p.t.Context(), txn)
	if err != nil {
		p.t.Fatalf("commit to the log: %v", err)
	}
	c.rv = done.Revision
	p.changes = append(p.changes, c)
	if p.now[key] = &c; txn.Delete {
		delete(p.now, key)
	}
	return c.rv
}

// settle waits until all changes are in the cache, and most of them behind its window.
func (p *journal) settle() {
	p.t.Helper()
	p.list(p.at("configmaps"), func(o *wire.ListOptions) {
		o.ResourceVersion, o.Match, o.Limit = fmt.Sprint(p.changes[len(p.changes)-1].rv), wire.MatchNotOlderThan, 1
	})
}

func newJournal(s *server) *journal { return &journal{server: s, now: map[string]*journalChange{}} }

// random makes n changes of few config maps.
func (p *journal) random(r *rand.Rand, n int) {
	for range n {
		c := journalChange{
			namespace: []string{"a", "a-b", "b"}[r.IntN(3)], name: fmt.Sprintf("o%d", r.IntN(5)),
			app: []string{"web", "db"}[r.IntN(2)],
		}
		if p.now[c.namespace+"/"+c.name] != nil && r.IntN(4) == 0 {
			c.app = ""
		}
		p.write(c, r.IntN(300))
	}
	p.settle()
}

// choice is what a watch selects; zero members select everything.
type choice struct{ namespace, name, app string }

func (c choice) has(change *journalChange) bool {
	return change != nil && change.app != "" && (c.namespace == "" || c.namespace == change.namespace) &&
		(c.name == "" || c.name == change.name) && (c.app == "" || c.app == change.app)
}

func (c choice) options(o *wire.ListOptions) {
	if c.app != "" {
		o.Labels = labels.SelectorFromSet(labels.Set{"app": c.app})
	}
	if c.name != "" {
		o.Fields = fields.OneTermEqualSelector("metadata.name", c.name)
	}
}

// events are what a watch after rv must return, as lines.
func (p *journal) events(rv int64, sel choice) []string {
	var lines []string
	for i := range p.changes {
		c := &p.changes[i]
		is, was := sel.has(c), sel.has(c.before)
		if c.rv <= rv || !is && !was {
			continue
		}
		t, app := kube.Modified, c.app
		switch {
		case !was:
			t = kube.Added
		case !is:
			t, app = kube.Deleted, c.before.app
		}
		lines = append(lines, fmt.Sprintf("%s %d %s/%s %s", t, c.rv, c.namespace, c.name, app))
	}
	return lines
}

// collect returns the first n events of a watch after rv, and why it ended before.
func (p *journal) collect(ctx context.Context, rv int64, sel choice, n int) ([]string, error) {
	w, err := p.Watch(ctx, p.at("configmaps", sel.namespace), options(func(o *wire.ListOptions) {
		o.ResourceVersion = fmt.Sprint(rv)
		sel.options(o)
	}))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var lines []string
	for len(lines) < n {
		events, err := w.Next(ctx)
		if err != nil {
			return lines, err
		}
		for _, e := range events {
			lines = append(lines, fmt.Sprintf("%s %d %s %s", e.Type, e.ResourceVersion, e.Object.Key(), e.Object.Labels()["app"]))
			if e.Object.ResourceVersion() != e.ResourceVersion {
				return lines, fmt.Errorf("event %d has an object at %d", e.ResourceVersion, e.Object.ResourceVersion())
			}
		}
	}
	return lines, nil
}

// TestFarWatchesSeeEveryChangeOfTheirSelection runs watches with all kinds of selections
// from all revisions, many at once and some together, first alone and then while history is
// compacted. Each must return its events in order, or expire.
func TestFarWatchesSeeEveryChangeOfTheirSelection(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := newJournal(serve(t))
	p.random(rand.New(rand.NewPCG(seed, 0)), 1500)
	var met struct{ events, expired atomic.Int64 }
	// watch follows from a random revision, as often as times.
	watch := func(r *rand.Rand, mayExpire bool) {
		sel := choice{
			namespace: []string{"", "a", "a-b", "none"}[r.IntN(4)], name: []string{"", "", "o1"}[r.IntN(3)],
			app: []string{"", "web"}[r.IntN(2)],
		}
		rv := p.changes[r.IntN(8)*150].rv // few places, so that some share their work
		want := p.events(rv, sel)
		got, err := p.collect(t.Context(), rv, sel, len(want))
		switch {
		case expired(err) != nil && mayExpire:
			met.expired.Add(1)
			want = want[:min(len(got), len(want))]
		case err != nil:
			t.Errorf("%+v after %d: %v", sel, rv, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v after %d returns\n%s, want\n%s", sel, rv, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		met.events.Add(int64(len(got)))
	}
	crowd := func(mayExpire bool) {
		var all sync.WaitGroup
		for worker := range 12 {
			r := rand.New(rand.NewPCG(seed, uint64(worker+1)))
			all.Go(func() {
				for range 12 {
					watch(r, mayExpire)
				}
			})
		}
		if mayExpire {
			for i := range 20 {
				if _, err := p.Compact(t.Context(), store.Compaction{UpTo: p.changes[i*70].rv}); err != nil {
					t.Errorf("compact: %v", err)
				}
			}
		}
		all.Wait()
	}
	crowd(false)
	crowd(true)
	if met.events.Load() == 0 || met.expired.Load() == 0 {
		t.Errorf("the watches met %d events and expired %d times", met.events.Load(), met.expired.Load())
	}
}

// handing counts what is read for a reader of history.
type handing struct {
	store.Store
	feeds, changes, values atomic.Int64
}

func (h *handing) reset() { h.feeds.Store(0); h.changes.Store(0); h.values.Store(0) }

func (h *handing) Changes(ctx context.Context, from store.From) (store.Changes, error) {
	feed, err := h.Store.Changes(ctx, from)
	if err != nil || from.Hold || from.UpTo != 0 && from.UpTo <= from.After {
		return feed, err
	}
	h.feeds.Add(1)
	return handingFeed{feed, h}, nil
}

type handingFeed struct {
	store.Changes
	to *handing
}

func (f handingFeed) Next(ctx context.Context) (store.Batch, error) {
	batch, err := f.Changes.Next(ctx)
	f.to.changes.Add(int64(len(batch.Changes)))
	for _, c := range batch.Changes {
		if c.Value != nil {
			f.to.values.Add(1)
		}
		if c.Previous != nil && c.Previous.Value != nil {
			f.to.values.Add(1)
		}
	}
	return batch, err
}

// TestFarWatchesReadLittleMoreThanTheyReturn counts what the store hands to watches of 5 000
// updates, which do not fit into the batches by number or by bytes.
func TestFarWatchesReadLittleMoreThanTheyReturn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, size := range []int{100, 6000} {
		h := &handing{}
		s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { h.Store = below; return h })
		p := newJournal(s)
		start := p.write(journalChange{namespace: "a", name: "hot", app: "web"}, size)
		for i := range 5000 {
			p.write(journalChange{namespace: "a", name: "hot", app: "web"}, size)
			if i%10 == 0 {
				p.write(journalChange{namespace: "b", name: fmt.Sprint("o", i%70), app: "db"}, size)
			}
		}
		p.settle()
		for _, c := range []struct {
			sel   choice
			reads int64 // values at most, in 100 events; 0: what the watch before has read
		}{
			{choice{namespace: "a", name: "hot"}, 110},
			{choice{namespace: "a"}, 0},
			{choice{name: "hot"}, 0},
			{choice{namespace: "b"}, 110},
			{choice{}, 0},
		} {
			h.reset()
			want := p.events(start, c.sel)
			if got, err := p.collect(t.Context(), start, c.sel, len(want)); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%+v: %d events of %d, %v", c.sel, len(got), len(want), err)
			}
			n := int64(len(want))
			if changes := h.changes.Load(); changes*10 > n*11 {
				t.Errorf("%+v of %d bytes: %d changes for %d events", c.sel, size, changes, n)
			}
			if values := h.values.Load(); values*100 > n*c.reads && (c.reads > 0 || size == 100) {
				t.Errorf("%+v of %d bytes: %d values for %d events", c.sel, size, values, n)
			}
		}
	}
}

// A watch that is open reads nothing until it must, also to learn that it has expired.
func TestExpiryIsDecidedWithoutReading(t *testing.T) {
	h := &handing{}
	s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { h.Store = below; return h })
	p := newJournal(s)
	p.random(rand.New(rand.NewPCG(1, 1)), 300)
	if _, err := s.Compact(t.Context(), store.Compaction{UpTo: p.changes[150].rv}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	for i, wantExpired := range map[int]bool{0: true, 100: true, 200: false, 299: false} {
		w, err := s.Watch(t.Context(), s.at("configmaps"),
			options(func(o *wire.ListOptions) { o.ResourceVersion = fmt.Sprint(p.changes[i].rv) }))
		if (expired(err) != nil) != wantExpired {
			t.Errorf("watch after change %d: %v", i, err)
		}
		if err == nil {
			w.Close()
		}
	}
	if feeds := h.feeds.Load(); feeds != 0 {
		t.Errorf("%d feeds were opened", feeds)
	}
}

// TestFarWatchesReadSelectableFieldsAfresh changes which fields can be selected by: what
// other watches have decoded before must not be used.
func TestFarWatchesReadSelectableFieldsAfresh(t *testing.T) {
	s := serve(t)
	was := s.create(s.at(crds), definition(""))
	first := s.create(s.at(foos, "default"), foo("x", `{"a":"first"}`)).ResourceVersion().String()
	for i := range 200 {
		s.merge(s.at(foos, "default", "x"), fmt.Sprintf(`{"spec":{"a":"n%d"}}`, i%50))
	}
	s.watch(s.at(foos), func(o *wire.ListOptions) { o.ResourceVersion = first }).take(200)
	selectable := `"versions":[{"selectableFields":[{"jsonPath":".spec.a"}],`
	s.update(s.at(crds, "", "foos.t.example.com"), strings.Replace(string(was.JSON()), `"versions":[{`, selectable, 1))
	w := s.watch(s.at(foos), func(o *wire.ListOptions) {
		o.ResourceVersion, o.Fields = first, fields.OneTermEqualSelector("spec.a", "n7")
	})
	in, out := "ADDED default/x", "DELETED default/x"
	if diff := cmp.Diff([]string{in, out, in, out, in, out, in, out}, w.take(8)); diff != "" {
		t.Error(diff)
	}
}
