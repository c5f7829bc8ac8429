package revlog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

// TestLogMatchesOracle does random things to a log and to a list of writes, with
// restarts between them, and compares all of it every now and then.
func TestLogMatchesOracle(t *testing.T) {
	random := seeded(t)
	f := newLife(random)
	o := revlog.Options{Dir: t.TempDir(), SegmentBytes: 8 << 10}
	for range 6 {
		l, stop, err := start(t, o)
		if err != nil {
			t.Fatalf("start: %v", err)
		}
		if err := f.oracle.CompareAt(t.Context(), l, nil); err != nil {
			t.Fatalf("compare the states: %v", err)
		}
		addUp(t, l)
		for range random.IntN(120) {
			if err := f.write(t.Context(), l); err != nil {
				t.Fatalf("write: %v", err)
			}
		}
		f.compare(t, l)
		if err := stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
	l := open(t, o)
	if err := f.oracle.Compare(t.Context(), l); err != nil {
		t.Fatalf("compare with the oracle: %v", err)
	}
}

func TestHistoryEndsByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, revlog.Options{Memory: true, History: time.Hour})
		began := time.Now()
		commit(t, l, "quiet/a", "1")
		commit(t, l, "pods/a", "1")
		superseded := commit(t, l, "pods/a", "2")
		<-time.After(30 * time.Minute) // of the bubble's clock
		young := commit(t, l, "pods/a", "3")
		for range 3 {
			<-time.After(15 * time.Minute)
		}
		synctest.Wait()

		s := l.Stats()
		if s.Compacted != superseded || s.Floors["pods"].Revision != superseded || s.Floors["quiet"] != (revlog.Floor{}) {
			t.Fatalf("after 75 minutes: %+v, want a floor of %d", s, superseded)
		}
		_, err := l.Read(t.Context(), store.Query{Start: "pods/a", AtRevision: superseded - 1})
		if got := compacted(t, err); got.Reason != "age" || !got.FloorTime.Equal(began) || got.Resource != "pods" {
			t.Errorf("got %+v, want the reason age at %v", got, began)
		}
		page, err := l.Read(t.Context(), store.Query{Start: "pods/a", AtRevision: superseded})
		if err != nil || string(page.Records[0].Value) != "2" {
			t.Errorf("what was superseded 45 minutes ago at %d: %+v, %v", young, page, err)
		}
	})
}

func TestHistoryEndsByBytesButNotTheLastMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, revlog.Options{Memory: true, HistoryBytes: 64 << 10, SegmentBytes: 8 << 10})
		value := string(make([]byte, 1000))
		for range 100 { // 1.6 times the budget, all of it young
			commit(t, l, "pods/a", value)
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if s := l.Stats(); s.Compacted != 0 {
			t.Errorf("young history is compacted before the budget is used twice: %+v", s)
		}
		<-time.After(5 * time.Minute)
		synctest.Wait()
		s := l.Stats()
		if s.Compacted == 0 || s.Retained > 64<<10 || s.Bytes > 80<<10 || s.Retained < 40<<10 {
			t.Errorf("old history over the budget: %+v", s)
		}
		for range 300 {
			commit(t, l, "pods/a", value)
			<-time.After(10 * time.Millisecond) // compaction pauses for the writers' sake
			synctest.Wait()
		}
		if s := l.Stats(); s.Retained > (128+16)<<10 {
			t.Errorf("young history of more than twice the budget is kept: %+v", s)
		}
		_, err := l.Changes(t.Context(), store.From{Prefix: "pods/"})
		if got := compacted(t, err); got.Reason != "bytes" {
			t.Errorf("got %+v, want the reason bytes", got)
		}
	})
}

func TestMergingFreesSpace(t *testing.T) {
	dir := t.TempDir()
	o := revlog.Options{Dir: dir, SegmentBytes: 16 << 10}
	l := open(t, o)
	value := string(make([]byte, 1000))
	keep := commit(t, l, "quiet/a", value)
	var last int64
	for range 200 {
		last = commit(t, l, "pods/a", value)
	}
	before := l.Stats()
	if _, err := l.Compact(t.Context(), store.Compaction{UpTo: last}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	after := l.Stats()
	if after.Bytes*4 > before.Bytes || after.Segments > 2 {
		t.Errorf("%d bytes in %d segments before, %d in %d after", before.Bytes, before.Segments, after.Bytes, after.Segments)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	l = open(t, o)
	page, err := l.Read(t.Context(), store.Query{Start: "quiet/a"})
	if err != nil || page.Records[0].ModRevision != keep || page.Revision != last {
		t.Errorf("after the restart: %+v, %v", page, err)
	}
}

func TestDeletedKeysStayDeletedAfterMergingAndRestart(t *testing.T) {
	random := seeded(t)
	fs := disktest.New(random)
	f := newLife(random)
	l, stop, err := start(t, small(fs))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	for range 400 {
		if err := f.write(t.Context(), l); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	for _, key := range []string{"pods/0", "pods/1", "pods/2", "nodes/0"} {
		if current := f.oracle.Current(key); current != 0 {
			txn := store.Txn{Key: key, Delete: true, ExpectedModRevision: current}
			done, err := l.Commit(t.Context(), txn)
			if err != nil {
				t.Fatalf("commit: %v", err)
			}
			f.oracle.Add(done.Revision, txn)
		}
	}
	revisions := f.oracle.Revisions()
	for _, upTo := range []int64{revisions[len(revisions)/2], revisions[len(revisions)-1]} {
		if _, err := l.Compact(t.Context(), store.Compaction{UpTo: upTo}); err != nil {
			t.Fatalf("compact: %v", err)
		}
		f.oracle.Compact(upTo)
		f.compare(t, l)
		if err := stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
		if l, stop, err = start(t, small(fs)); err != nil {
			t.Fatalf("start: %v", err)
		}
		f.compare(t, l)
	}
	if err := stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
}
