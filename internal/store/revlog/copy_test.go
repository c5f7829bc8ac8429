package revlog_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

// TestCopyHasWhatWasAnsweredBeforeAndNothingOfLater copies a log of several segments while
// others write, and opens the copy.
func TestCopyHasWhatWasAnsweredBeforeAndNothingOfLater(t *testing.T) {
	fs := disktest.New(seeded(t))
	l := open(t, revlog.Options{FS: fs, SegmentBytes: 16 << 10})
	var last int64
	for i := range 100 {
		last = commit(t, l, fmt.Sprintf("pods/%d", i%10), fmt.Sprintf("%01000d", i))
	}
	if _, err := l.Compact(t.Context(), store.Compaction{UpTo: last - 20}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.Commit(t.Context(), store.Txn{
					Key: fmt.Sprintf("busy/%d-%d", w, i), Value: make([]byte, 500),
				}); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
			}
		})
	}
	for range 5 {
		before, err := l.Progress(t.Context())
		if err != nil {
			t.Fatalf("ask for the progress: %v", err)
		}
		copied := disk.NewMemory()
		if err := l.CopyTo(t.Context(), copied); err != nil {
			t.Fatalf("copy the log: %v", err)
		}
		after, err := l.Progress(t.Context())
		if err != nil {
			t.Fatalf("ask for the progress: %v", err)
		}
		other := open(t, revlog.Options{FS: copied, SegmentBytes: 16 << 10})
		upTo, err := other.Progress(t.Context())
		if err != nil || upTo < before || upTo > after {
			t.Errorf("copied between revisions %d and %d: the copy ends at %d, %v", before, after, upTo, err)
		}
		if page, err := other.Read(t.Context(), store.Query{
			Start: "pods/", End: store.PrefixEnd("pods/"),
		}); err != nil || len(page.Records) != 10 {
			t.Errorf("%d of 10 records, %v", len(page.Records), err)
		}
		if _, err := other.Changes(t.Context(), store.From{Prefix: "pods/", After: last - 30}); compacted(t, err).Floor == 0 {
			t.Error("the copy has no floor")
		}
		if next := commit(t, other, "pods/0", "later"); next != upTo+1 {
			t.Errorf("the copy goes on at %d after %d", next, upTo)
		}
		if err := other.Close(); err != nil {
			t.Errorf("close the other one: %v", err)
		}
	}
	close(stop)
	writers.Wait()
}

func TestFloorOfEveryResourceIsKeptOverARestart(t *testing.T) {
	o := revlog.Options{FS: disktest.New(seeded(t))}
	l := open(t, o)
	commit(t, l, "quiet/x", "1")
	created := commit(t, l, "gone/x", "1")
	done, err := l.Commit(t.Context(), store.Txn{Key: "gone/x", Delete: true, ExpectedModRevision: created})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	if _, err := l.Compact(t.Context(), store.Compaction{UpTo: done.Revision}); err != nil { // no record of gone is left
		t.Fatalf("compact: %v", err)
	}
	last := commit(t, l, "pods/a", "1")
	if _, err := l.Compact(t.Context(), store.Compaction{UpTo: last, Every: true}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	check := func(l *revlog.Log) {
		t.Helper()
		for _, prefix := range []string{"quiet/", "gone/", "pods/", "never/"} {
			if _, err := l.Changes(t.Context(), store.From{Prefix: prefix, After: last - 1}); compacted(t, err).Floor != last {
				t.Errorf("%s before the mark: %v", prefix, err)
			}
			feed, err := l.Changes(t.Context(), store.From{Prefix: prefix, After: last})
			if err != nil {
				t.Errorf("%s at the mark: %v", prefix, err)
				continue
			}
			if err := feed.Close(); err != nil {
				t.Errorf("close the feed: %v", err)
			}
		}
	}
	check(l)
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	check(open(t, o))
}
