package revlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a log and runs it until the test ends.
func open(tb testing.TB, o revlog.Options) *revlog.Log {
	tb.Helper()
	l, err := revlog.Open(tb.Context(), o)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	run(tb, l)
	return l
}

// run runs l until it is closed or the test ends.
func run(tb testing.TB, l *revlog.Log) {
	tb.Helper()
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.WithoutCancel(tb.Context())) }() // ends with Close
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
		if _, poisoned := errors.AsType[*store.PoisonedError](<-ended); poisoned {
			tb.Log("the log ended poisoned") // what a test of failures wants
		}
	})
}

func TestMemoryLogIsAStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		t.Helper()
		return open(t, revlog.Options{Memory: true})
	})
}

func TestLogOnDiskIsAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		t.Helper()
		return open(t, revlog.Options{Dir: t.TempDir()})
	})
}

func TestLogOfTinySegmentsIsAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		t.Helper()
		return open(t, revlog.Options{Memory: true, SegmentBytes: 4 << 10})
	})
}

// commit writes key over whatever is there.
func commit(tb testing.TB, l *revlog.Log, key, value string) int64 {
	tb.Helper()
	page, err := l.Read(tb.Context(), store.Query{Start: key})
	if err != nil {
		tb.Fatalf("read: %v", err)
	}
	txn := store.Txn{Key: key, Value: []byte(value)}
	if len(page.Records) > 0 {
		txn.ExpectedModRevision = page.Records[0].ModRevision
	}
	done, err := l.Commit(tb.Context(), txn)
	if err != nil {
		tb.Fatalf("commit %q: %v", key, err)
	}
	return done.Revision
}

func compacted(tb testing.TB, err error) *store.CompactedError {
	tb.Helper()
	got, ok := errors.AsType[*store.CompactedError](err)
	if !ok {
		tb.Fatalf("got %v, want CompactedError", err)
	}
	return got
}

func TestRestartKeepsEverything(t *testing.T) {
	o := revlog.Options{Dir: filepath.Join(t.TempDir(), "new", "log"), BaseRevision: 41}
	l := open(t, o)
	if got := commit(t, l, "pods/a", "1"); got != 42 {
		t.Errorf("the first revision is %d, want 42", got)
	}
	commit(t, l, "pods/a", "2")
	deleted, err := l.Commit(t.Context(), store.Txn{Key: "pods/a", Delete: true, ExpectedModRevision: 43})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	commit(t, l, "nodes/a", "1")
	if _, err := l.Compact(t.Context(), store.Compaction{UpTo: deleted.Revision}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	_, err = l.Changes(t.Context(), store.From{Prefix: "pods/", After: 43})
	want := compacted(t, err)
	before := l.Stats()
	if before.Groups == 0 {
		t.Error("no group of writes was counted")
	}
	before.Groups, before.Compactions, before.Syncs = 0, 0, revlog.Syncs{} // are counted since Open
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}

	o.BaseRevision = 1000 // is of no effect on a log that exists
	l = open(t, o)
	after := l.Stats()
	after.Syncs = revlog.Syncs{}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("stats after a restart (-want +got):\n%s", diff)
	}
	_, err = l.Changes(t.Context(), store.From{Prefix: "pods/", After: 43})
	if diff := cmp.Diff(want, compacted(t, err)); diff != "" {
		t.Errorf("floor after a restart (-want +got):\n%s", diff)
	}
	if _, err := l.Changes(t.Context(), store.From{Prefix: "nodes/"}); err != nil {
		t.Errorf("a quiet resource expired by the restart: %v", err)
	}
	if got := commit(t, l, "pods/a", "3"); got != before.Revision+1 {
		t.Errorf("the revision after a restart is %d, want %d", got, before.Revision+1)
	}
}

func TestRevisionsAreNotReusedAfterTheLastObjectIsDeleted(t *testing.T) {
	o := revlog.Options{Dir: t.TempDir()}
	l := open(t, o)
	commit(t, l, "pods/a", "1")
	done, err := l.Commit(t.Context(), store.Txn{
		Key: "pods/a", Delete: true, ExpectedModRevision: revlog.DefaultBaseRevision + 1,
	})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	if _, err := l.Compact(t.Context(), store.Compaction{UpTo: done.Revision}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	for range 3 {
		if err := l.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		l = open(t, o)
	}
	if got := commit(t, l, "pods/a", "1"); got != done.Revision+1 {
		t.Errorf("the next revision is %d, want %d", got, done.Revision+1)
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	l := open(t, revlog.Options{Dir: dir})
	_, err := revlog.Open(t.Context(), revlog.Options{Dir: dir})
	locked, ok := errors.AsType[*store.LockedError](err)
	if !ok || locked.Path != dir || !strings.Contains(locked.Holder, fmt.Sprintf("pid %d ", os.Getpid())) {
		t.Errorf("a second open gives %v, want LockedError with our pid", err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	open(t, revlog.Options{Dir: dir})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []revlog.Options{
		{},
		{Memory: true, BaseRevision: -1},
		{Memory: true, BaseRevision: 1<<63 - 1},
		{Memory: true, SegmentBytes: 1},
		{Memory: true, SegmentBytes: 1 << 40},
		{Memory: true, History: -1},
		{Memory: true, HistoryBytes: -1},
	} {
		if _, err := revlog.Open(t.Context(), o); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("options %+v give %v, want ErrInvalid", o, err)
		}
	}
}

func TestCommitWaitsForRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
		if err != nil {
			t.Fatalf("open the log: %v", err)
		}
		cause := errors.New("waited long enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, cause)
		defer cancel()
		if _, err := l.Commit(ctx, store.Txn{Key: "pods/a"}); !errors.Is(err, cause) {
			t.Errorf("a commit before Run gives %v, want the context's cause", err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := l.Commit(t.Context(), store.Txn{Key: "pods/b"}); err != nil {
				t.Errorf("commit: %v", err)
			}
		})
		synctest.Wait()
		run(t, l)
		wg.Wait()
		if err := l.Run(t.Context()); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("a second Run gives %v, want ErrInvalid", err)
		}
	})
}

func TestOnlyReadsWorkAfterRunEnded(t *testing.T) {
	l, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }() // ends with cancel
	commit(t, l, "pods/a", "1")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run gives %v", err)
	}
	if _, err := l.Commit(t.Context(), store.Txn{Key: "pods/b"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a commit after Run gives %v, want ErrClosed", err)
	}
	if page, err := l.Read(t.Context(), store.Query{Start: "pods/a"}); err != nil || len(page.Records) != 1 {
		t.Errorf("a read after Run gives %+v, %v", page, err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func TestMemoryModeTouchesNoFiles(t *testing.T) {
	dir := t.TempDir()
	l := open(t, revlog.Options{Dir: dir, Memory: true})
	commit(t, l, "pods/a", "1")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("files %v, %v", entries, err)
	}
}

// TestHistoryIsReadFromSegments replays more than the log keeps in memory.
func TestHistoryIsReadFromSegments(t *testing.T) {
	l := open(t, revlog.Options{Dir: t.TempDir(), SegmentBytes: 1 << 20})
	var wg sync.WaitGroup
	const writers, writes = 64, 400
	for w := range writers {
		wg.Go(func() {
			var expected int64
			for i := range writes {
				done, err := l.Commit(t.Context(), store.Txn{
					Key: fmt.Sprintf("pods/%d", w), Value: fmt.Appendf(nil, "%d/%d", w, i), ExpectedModRevision: expected,
				})
				if err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				expected = done.Revision
			}
		})
	}
	wg.Wait()
	changes, err := storetest.Collect(t.Context(), l, store.From{Prefix: "pods/", UpTo: l.Stats().Revision})
	if err != nil || len(changes) != writers*writes {
		t.Fatalf("%d changes, %v, want %d", len(changes), err, writers*writes)
	}
	next := map[string]int{}
	for i, c := range changes {
		n := next[c.Key]
		value := strings.TrimPrefix(c.Key, "pods/") + "/"
		if c.Revision != revlog.DefaultBaseRevision+int64(i)+1 || string(c.Value) != value+strconv.Itoa(n) {
			t.Fatalf("change %d is %+v, want value %d", i, c, n)
		}
		if n > 0 && (c.Previous == nil || string(c.Previous.Value) != value+strconv.Itoa(n-1)) {
			t.Fatalf("change %d replaces %+v, want value %d", i, c.Previous, n-1)
		}
		next[c.Key]++
	}
}
