package stored

import (
	"errors"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestARunIsFoundWhereItServes(t *testing.T) {
	d := newDecoded()
	here := place{fields: &[]wire.FieldPath{}, after: 1, most: 256}
	plain := run{entries: []*watchcache.Entry{entry(t, 2, 10)}, through: 5}
	d.putRun(here, plain)
	elsewhere, fewer, others := here, here, here
	elsewhere.after, fewer.most, others.fields = 2, 1, &[]wire.FieldPath{}
	if r := d.run(here, false, 5); r == nil || len(r.entries) != 1 || r.through != 5 {
		t.Errorf("a run is not found: %v", r)
	}
	for _, at := range []place{elsewhere, fewer, others} {
		if d.run(at, false, 5) != nil {
			t.Errorf("a run is found at %v", at)
		}
	}
	if d.run(here, false, 4) != nil {
		t.Error("a run is found that goes on for longer than the reader")
	}
	if d.run(here, true, 5) != nil {
		t.Error("a run is found without the objects before")
	}
	plain.previous = true
	d.putRun(here, plain) // in its place
	if d.run(here, true, 5) == nil || d.run(here, false, 5) == nil || len(d.ran) != 1 {
		t.Error("a run with the objects before is not found")
	}
}

func TestRunsAreBoundedAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoded()
		fields := &[]wire.FieldPath{}
		large := entry(t, 1, decodedBytes/10)
		for after := range int64(30) {
			e := watchcache.NewEntry(kube.ResourceVersion(after+1), large.Object, nil)
			d.put([]*watchcache.Entry{e}, fields)
			d.putRun(place{fields: fields, after: after}, run{
				entries: []*watchcache.Entry{e}, through: kube.ResourceVersion(after + 1),
			})
		}
		if len(d.runs) != 9 || len(d.ran) != 9 || d.running > decodedBytes {
			t.Errorf("%d runs are held, %d in order, of %d bytes", len(d.runs), len(d.ran), d.running)
		}
		if d.run(place{fields: fields, after: 29}, false, 30) == nil || d.run(place{fields: fields, after: 1}, false, 30) != nil {
			t.Error("it is not the newest that are held")
		}
		<-time.After(3 * keepDecoded)
		synctest.Wait()
		if len(d.runs) != 0 || len(d.ran) != 0 || d.running != 0 || d.ticking {
			t.Errorf("what was not used is held: %d runs of %d bytes", len(d.runs), d.running)
		}
	})
}

func TestARunWithoutEntriesIsNotKept(t *testing.T) {
	d := newDecoded()
	for after := range int64(100) {
		d.putRun(place{fields: &[]wire.FieldPath{}, after: after}, run{through: 100})
	}
	if len(d.runs)+len(d.ran) != 0 {
		t.Errorf("%d runs are kept, %d in order", len(d.runs), len(d.ran))
	}
}

// TestARunExpiresWithoutNewEntries: others may have decoded its entries, and theirs may have expired meanwhile.
func TestARunExpiresWithoutNewEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoded()
		d.putRun(place{fields: &[]wire.FieldPath{}, after: 1}, run{entries: []*watchcache.Entry{entry(t, 2, 10)}, through: 2})
		<-time.After(3 * keepDecoded)
		synctest.Wait()
		if len(d.runs)+len(d.ran) != 0 || d.running != 0 || d.ticking {
			t.Errorf("%d runs of %d bytes are held", len(d.runs), d.running)
		}
	})
}

func TestOutlinesOfSingleObjectsAreBounded(t *testing.T) {
	l, fields := newOutlines(), &[]wire.FieldPath{}
	for hash := range uint64(100_000) {
		l.put(row{hash: hash, length: 1, fields: fields}, outline{text: "\x00", n: 1})
	}
	if n := len(l.known); n > outlinesBytes/rowBytes || n != len(l.order) || l.get(row{99_999, 1, fields}).n != 1 {
		t.Errorf("%d rows are held, %d in order, with room for %d", n, len(l.order), outlinesBytes/rowBytes)
	}
}

// before is what brief says of the object before.
var before = regexp.MustCompile(` after \w+`)

// changesOf reads all changes of a range, and returns them as texts, without the objects before if they are not required:
// other readers may have read them.
func changesOf(t *testing.T, r *Resource, q watchcache.Range) (all []string) {
	t.Helper()
	for q.After < q.UpTo {
		entries, through, err := r.Entries(t.Context(), q)
		if err != nil || through <= q.After {
			t.Fatalf("read after %d: through %d, %v", q.After, through, err)
		}
		for _, e := range entries {
			text := brief(e)
			if q.Selection == nil || !q.Selection.Previous {
				text = before.ReplaceAllString(text, "")
			}
			all = append(all, text)
		}
		q.After = through
	}
	return all
}

// TestARunIsWhatTheStoreHas reads from every place, twice, by readers that need more and less, between changes.
func TestARunIsWhatTheStoreHas(t *testing.T) {
	list, r := pods(t)
	list.Together(put("a", "1"), put("b", "1"))
	list.Together(put("a", "2"))
	list.Together(deletion("b"))
	list.Miss(func() { list.Together(put("a", "3")); list.Together(put("c", "1")) })
	list.Together(put("a", "4"))
	for upTo := kube.ResourceVersion(1); upTo <= 7; upTo++ {
		for after := range upTo {
			if after == 4 || after == 5 { // inside the hole
				continue
			}
			for _, sel := range []*watchcache.Selection{nil, {}, {Previous: true}, {Namespace: "ns"}, {Name: "a"}} {
				q := watchcache.Range{After: after, Since: after, UpTo: upTo, Selection: sel}
				fresh := NewSource(list).Resource(r.GR, nil)
				want := changesOf(t, fresh, q)
				for range 2 {
					if diff := cmp.Diff(want, changesOf(t, r, q)); diff != "" {
						t.Errorf("after %d up to %d for %+v (-want +got):\n%s", after, upTo, sel, diff)
					}
				}
			}
		}
	}
}

// TestARunThatWasRemovedIsExpired: what is remembered of history does not outlive it.
func TestARunThatWasRemovedIsExpired(t *testing.T) {
	list, r := pods(t)
	list.Together(put("a", "1"))
	list.Together(put("a", "2"))
	list.Together(put("a", "3"))
	q := watchcache.Range{After: 1, Since: 1, UpTo: 3, Selection: &watchcache.Selection{Previous: true}}
	changesOf(t, r, q)
	if len(r.source.decoded.runs) != 1 {
		t.Fatalf("%d runs are remembered", len(r.source.decoded.runs))
	}
	if _, err := list.Compact(t.Context(), store.Compaction{UpTo: 2}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	_, _, err := r.Entries(t.Context(), q)
	if e, is := errors.AsType[*kube.ExpiredError](err); !is || e.Requested != 1 {
		t.Errorf("read what was removed: %v", err)
	}
}
