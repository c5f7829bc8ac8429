package revlog

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/build"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// opened opens a log, and runs it until the test ends.
func opened(t *testing.T, files disk.FS) *Log {
	t.Helper()
	l, err := Open(t.Context(), Options{FS: files})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() { ended <- l.Run(ctx) }() // ends with Close
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close the log: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("run the log: %v", err)
		}
	})
	return l
}

// written writes an object, and returns its revision.
func written(t *testing.T, l *Log) int64 {
	t.Helper()
	revisions, err := l.Append(t.Context(), []Write{{Key: "pods/a", Value: []byte("{}")}})
	if err != nil {
		t.Fatalf("write an object: %v", err)
	}
	return revisions[0]
}

// TestALogOfAnotherStoresObjectsHasNoSetbacks: Events of etcd have times by the ends of their leases, which are not in
// the order of their revisions. All of them are compacted, so nobody asks for a revision among them.
func TestALogOfAnotherStoresObjectsHasNoSetbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events, end = 1000, 2000
		files, now := disk.NewMemory(), time.Now()
		b := build.New(files, 0)
		for i := range int64(events) {
			r := store.Record{
				Key: fmt.Sprintf("events/default/%d", i), Value: []byte("{}"), ModRevision: i + 1, CreateRevision: i + 1,
				Time: now.Add(-time.Duration(i) * time.Second),
			}
			if err := b.Put(r); err != nil {
				t.Fatalf("put an Event: %v", err)
			}
		}
		if err := b.Finish(t.Context(), build.End{From: events, To: end, Time: now}); err != nil {
			t.Fatalf("make the log: %v", err)
		}
		l := opened(t, files)
		first := written(t, l)
		<-time.After(time.Hour)
		written(t, l)
		if len(l.setbacks) != 0 {
			t.Errorf("%d setbacks of the clock are looked at in each round, want none", len(l.setbacks))
		}
		for since, want := range map[time.Duration]int64{2 * time.Hour: 0, time.Hour: first} {
			if got := l.revisionAtLocked(time.Now().Add(-since).UnixMilli()); got != want {
				t.Errorf("the latest revision %v ago is %d, want %d", since, got, want)
			}
		}
	})
}

// TestASetbackIsForgottenWithTheHistoryBeforeIt sets the clock back by ten days.
func TestASetbackIsForgottenWithTheHistoryBeforeIt(t *testing.T) {
	files := disk.NewMemory()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(10 * 24 * time.Hour)
		written(t, opened(t, files))
	})
	synctest.Test(t, func(t *testing.T) { // begins at the same time as the first one
		l := opened(t, files)
		first := written(t, l)
		<-time.After(time.Hour)
		second := written(t, l)
		if len(l.setbacks) != 1 || l.setbacks[0] != first {
			t.Fatalf("the clock was set back before %v, want %d", l.setbacks, first)
		}
		old := time.Now().Add(-time.Hour).UnixMilli()
		if got := l.revisionAtLocked(old); got != first {
			t.Errorf("the latest revision an hour ago is %d, want %d", got, first)
		}
		for _, upTo := range []int64{first - 1, first, second} {
			if _, err := l.Compact(t.Context(), store.Compaction{UpTo: upTo}); err != nil {
				t.Fatalf("compact up to %d: %v", upTo, err)
			}
			want := 0
			if upTo < first {
				want = 1
			}
			if len(l.setbacks) != want {
				t.Errorf("compacted up to %d: the clock was set back before %v, want %d", upTo, l.setbacks, want)
			}
			if got := l.revisionAtLocked(old); upTo == first-1 && got != first {
				t.Errorf("compacted up to %d: the latest revision an hour ago is %d, want %d", upTo, got, first)
			}
		}
	})
}
