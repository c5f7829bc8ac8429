package storetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
)

// Foreign is what a backend can do to which others write too, as to etcd. All members are required.
type Foreign struct {
	// Open returns a new, empty store, as for Run.
	Open func(t *testing.T) store.Store
	// Together lets another client commit writes at one revision, which it returns when the store
	// has seen it.
	Together func(t *testing.T, s store.Store, txns ...store.Txn) int64
	// Miss lets others commit what write gives to together, each time at one revision, in such a way that
	// the store has not seen them, and has a hole, when Miss returns.
	Miss func(t *testing.T, s store.Store, write func(together func(txns ...store.Txn) int64)) store.Hole
}

// RunForeign tests what a backend must do when others write too.
func RunForeign(t *testing.T, f Foreign) {
	t.Helper()
	claims := []struct {
		name  string
		claim func(*foreign)
	}{
		{"ChangesOfOneRevisionComeTogether", together},
		{"HolesShowTheDifferenceAndNothingBetween", holesShowTheDifference},
		{"ReadersOfADifferenceGoOnInsideAHole", readersGoOn},
		{"LiveFeedsReadOverAHole", liveFeedsReadOverAHole},
		{"EmptyHolesAreReported", emptyHoles},
	}
	for _, c := range claims {
		t.Run(c.name, func(t *testing.T) {
			c.claim(&foreign{bench: &bench{T: t, store: f.Open(t), oracle: &Oracle{}}, with: f})
		})
	}
}

// foreign is a bench with other writers.
type foreign struct {
	*bench

	with Foreign
}

// txns are writes over whatever is there: "pods/a=1" puts, "pods/a" deletes.
func (f *foreign) txns(writes ...string) []store.Txn {
	var txns []store.Txn
	for _, w := range writes {
		key, value, put := strings.Cut(w, "=")
		txns = append(txns, store.Txn{
			Key: key, Value: []byte(value), Delete: !put, ExpectedModRevision: f.oracle.Current(key),
		})
	}
	return txns
}

func (f *foreign) together(writes ...string) {
	f.Helper()
	txns := f.txns(writes...)
	revision := f.with.Together(f.T, f.store, txns...)
	f.oracle.AddTogether(revision, txns...)
}

// miss lets the store miss some writes, each of its own revision or several of one.
func (f *foreign) miss(all ...[]string) store.Hole {
	f.Helper()
	h := f.with.Miss(f.T, f.store, func(together func(...store.Txn) int64) {
		for _, writes := range all {
			txns := f.txns(writes...)
			f.oracle.AddTogether(together(txns...), txns...)
		}
	})
	f.oracle.Miss(h)
	return h
}

// script makes a history with several changes at some revisions, and a hole.
func (f *foreign) script() (h store.Hole) {
	f.together("pods/a=1", "pods/b=1", "nodes/1=1")
	f.put("pods/c", "1")
	f.put("pods/quiet", "1")
	f.together("pods/a", "pods/b=2", "nodes/1")
	f.together("pods/d=1", "pods/e=1", "pods/f=1", "pods/g=1")
	f.put("nodes/1", "2")
	h = f.miss(
		[]string{"pods/b=3"},
		[]string{"pods/d", "pods/e", "pods/h=1"},
		[]string{"pods/e=2"}, // a new life
		[]string{"pods/b=4", "pods/f=2"},
		[]string{"pods/h", "nodes/2=1"}, // nobody has seen pods/h
		[]string{"pods/g"},
		[]string{"pods/i=1"},
		[]string{"pods/i=2"},
	)
	f.put("pods/b", "5")
	f.together("pods/b", "pods/c", "pods/f")
	return h
}

// everywhere returns all revisions, and those around them.
func (f *foreign) everywhere() []int64 {
	first, last := f.oracle.Revisions()[0], f.current()
	var all []int64
	for revision := first; revision <= last; revision++ {
		all = append(all, revision)
	}
	return all
}

func together(f *foreign) {
	start := f.put("pods/a", "0")
	expired := []string{}
	for i := range 40 {
		f.put(fmt.Sprintf("events/%d", i), "1")
		expired = append(expired, fmt.Sprintf("events/%d", i))
	}
	f.together(expired...) // as the end of a lease
	f.together("events/1=2", "pods/a", "nodes/1=1", "events/2=2")
	f.put("events/3", "2")
	f.agree()
	for _, from := range []store.From{
		{}, {Limit: 1}, {MaxBytes: 1}, {Prefix: "events/", Limit: 3}, {Prefix: "pods/", Limit: 1}, {Key: "events/1", Limit: 1},
	} {
		from.After, from.UpTo = start, f.current()
		got, err := Collect(f.Context(), f.store, from) // no batch splits a revision
		if err != nil {
			f.Fatalf("collect %+v: %v", from, err)
		}
		want := f.oracle.after(from.Prefix, start, from.UpTo)
		if from.Key != "" {
			want = ofKey(want, from.Key)
		}
		f.equal(fmt.Sprintf("changes from %+v", from), got, want)
	}
}

func holesShowTheDifference(f *foreign) {
	h := f.script()
	if h.To-h.From < 9 {
		f.Fatalf("the hole is %+v", h)
	}
	if err := f.oracle.CompareAt(f.Context(), f.store, f.everywhere()); err != nil {
		f.Fatalf("compare with the oracle: %v", err)
	}
	f.compact(h.From - 1)
	if err := f.oracle.CompareAt(f.Context(), f.store, f.everywhere()); err != nil {
		f.Fatalf("compare with the oracle after a compaction: %v", err)
	}
}

// readersGoOn open a new feed for each batch, as reads of history do.
func readersGoOn(f *foreign) {
	h := f.script()
	for _, start := range []int64{h.From - 2, h.From} {
		for _, prefix := range []string{"", "pods/", "nodes/", "none/"} {
			var got []store.Change
			inside := false
			for after := start; after < f.current(); {
				from := store.From{Prefix: prefix, After: after, Since: start, UpTo: f.current(), Limit: 1}
				feed, err := f.store.Changes(f.Context(), from)
				if err != nil {
					f.Fatalf("go on at %d from %d over %+v: %v", after, start, h, err)
				}
				batch, err := feed.Next(f.Context())
				if err == nil {
					err = checkBatch(batch, after, from)
				}
				if err = errors.Join(err, feed.Close()); err != nil {
					f.Fatalf("read on at %d from %d over %+v: %v", after, start, h, err)
				}
				got, after = append(got, batch.Changes...), batch.Through
				inside = inside || h.Has(after)
			}
			want := f.oracle.after(prefix, start, f.current())
			if len(want) > 0 {
				f.equal(fmt.Sprintf("changes of %q after %d", prefix, start), got, want)
			}
			if prefix == "pods/" && !inside {
				f.Errorf("no batch of %q ends inside %+v", prefix, h)
			}
		}
	}
	from := store.From{Prefix: "pods/", After: h.From + 2, Since: h.From + 1, UpTo: f.current()}
	if _, err := f.store.Changes(f.Context(), from); !unseen(err) {
		f.Errorf("a reader that began inside %+v: %v", h, err)
	}
}

func unseen(err error) bool {
	e, is := errors.AsType[*store.CompactedError](err)
	return is && e.Reason == store.ReasonUnseen
}

func liveFeedsReadOverAHole(f *foreign) {
	start := f.put("pods/z", "1")
	held := f.changes(store.From{After: start, Hold: true})
	f.script()
	last := f.current()
	var got []store.Change
	var holes []store.Hole
	for through := start; through < last; {
		batch, err := held.Next(f.Context())
		if err == nil {
			err = checkBatch(batch, through, store.From{})
		}
		if err != nil {
			f.Fatalf("read the feed: %v", err)
		}
		got, through = append(got, batch.Changes...), batch.Through
		for _, h := range batch.Holes {
			if n := len(holes); n == 0 || holes[n-1] != h {
				holes = append(holes, h)
			}
		}
	}
	f.equal("changes", got, f.oracle.after("", start, last))
	f.equal("holes", holes, f.oracle.holes)
}

func emptyHoles(f *foreign) {
	start := f.put("pods/a", "1")
	h := f.miss([]string{"pods/b=1"}, []string{"pods/b"})
	feed := f.changes(store.From{Prefix: "pods/", After: start, UpTo: h.To})
	var holes []store.Hole
	for {
		batch, err := feed.Next(f.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(batch.Changes) > 0 {
			f.Fatalf("read the feed: %+v, %v", batch, err)
		}
		holes = append(holes, batch.Holes...)
	}
	f.equal("holes", holes, []store.Hole{h})
	if err := f.oracle.CompareAt(f.Context(), f.store, f.everywhere()); err != nil {
		f.Fatalf("compare with the oracle: %v", err)
	}
}
