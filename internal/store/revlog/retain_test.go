package revlog_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

func TestHistoryBytesDoNotCountLiveData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, revlog.Options{Memory: true, HistoryBytes: 64 << 10, SegmentBytes: 8 << 10})
		value := strings.Repeat("x", 1000)
		for i := range 200 { // three times the budget, all of it live
			commit(t, l, fmt.Sprintf("pods/live-%d", i), value)
		}
		first := commit(t, l, "pods/a", value)
		for range 30 {
			commit(t, l, "pods/a", value)
		}
		<-time.After(time.Hour)
		synctest.Wait()
		s := l.Stats()
		if s.Compacted != 0 || s.History < 30_000 || s.History > 40_000 {
			t.Errorf("30 old versions of 1 kB beside 200 kB of live data: %+v", s)
		}
		if _, err := l.Read(t.Context(), store.Query{Start: "pods/a", AtRevision: first}); err != nil {
			t.Errorf("the first of them: %v", err)
		}
	})
}

// TestClockSetBackDoesNotStopRetention writes while the clock is ten days
// ahead, and then continues at the right time.
func TestClockSetBackDoesNotStopRetention(t *testing.T) {
	fs := disktest.New(seeded(t))
	o := revlog.Options{FS: fs, History: time.Hour, SegmentBytes: 8 << 10}
	var ahead int64
	synctest.Test(t, func(t *testing.T) {
		<-time.After(10 * 24 * time.Hour)
		l := open(t, o)
		commit(t, l, "pods/a", "1")
		ahead = commit(t, l, "pods/a", "2")
	})
	synctest.Test(t, func(t *testing.T) { // begins at the same time as the first one
		l := open(t, o)
		commit(t, l, "pods/a", "3")
		<-time.After(30 * time.Minute)
		young := commit(t, l, "pods/a", "4")
		<-time.After(45 * time.Minute)
		synctest.Wait()
		if s := l.Stats(); s.Compacted <= ahead || s.Compacted >= young {
			t.Errorf("75 minutes later history is compacted up to %d, want more than %d and less than %d",
				s.Compacted, ahead, young)
		}
	})
}

func TestFloorsOfDeletedResourcesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	fs := disktest.New(seeded(t))
	o := revlog.Options{FS: fs, SegmentBytes: 32 << 10}
	l := open(t, o)
	const resources = 6_000
	var last int64
	commit(t, l, "pods/a", "x")
	for i := range resources {
		key := fmt.Sprintf("kind%d.example.com/a", i)
		created := commit(t, l, key, "x")
		done, err := l.Commit(t.Context(), store.Txn{Key: key, Delete: true, ExpectedModRevision: created})
		if err != nil {
			t.Fatalf("commit: %v", err)
		}
		if last = done.Revision; i%1000 == 0 {
			if _, err := l.Compact(t.Context(), store.Compaction{UpTo: last}); err != nil {
				t.Fatalf("compact: %v", err)
			}
		}
	}
	kept := commit(t, l, "nodes/a", "x")
	for range 2 { // what became empty is given up by the next one
		if _, err := l.Compact(t.Context(), store.Compaction{UpTo: kept}); err != nil {
			t.Fatalf("compact: %v", err)
		}
		kept = commit(t, l, "nodes/b", "x")
	}
	check := func(l *revlog.Log) {
		t.Helper()
		if n := len(l.Stats().Floors); n > 5000 {
			t.Errorf("%d floors are kept for %d deleted resources", n, resources)
		}
		if size := len(fs.Bytes("MANIFEST")); size > 1<<20 {
			t.Errorf("the manifest has %d bytes", size)
		}
		// A read of one of them at a removed revision is refused.
		for _, i := range []int{0, 1, resources / 2, resources - 1} {
			_, err := l.Changes(t.Context(), store.From{
				Prefix: fmt.Sprintf("kind%d.example.com/", i), After: revlog.DefaultBaseRevision + 1 + int64(2*i),
			})
			if got := compacted(t, err); got.Floor == 0 {
				t.Errorf("kind%d: %v", i, got)
			}
		}
		if _, err := l.Changes(t.Context(), store.From{Prefix: "pods/", After: 1}); err != nil {
			t.Errorf("pods lost nothing: %v", err)
		}
	}
	check(l)
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	check(open(t, o))
}

// TestLogIsWritableAgainWhileSmallWritesGoOn refuses a large write for want of space, and then
// makes small ones, which fit into the segment, more often than the log retries.
func TestLogIsWritableAgainWhileSmallWritesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := disktest.New(seeded(t))
		l := open(t, small(fs))
		commit(t, l, "pods/a", "1")
		fs.SetFault(func(op disktest.Op) error {
			if op.Kind == "create" {
				return syscall.ENOSPC
			}
			return nil
		})
		if _, err := l.Commit(t.Context(), store.Txn{
			Key: "pods/large", Value: make([]byte, 64<<10),
		}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("a large write gives %v", err)
		}
		fs.SetFault(nil)
		for i := range 10 {
			commit(t, l, fmt.Sprintf("pods/b%d", i), "1")
			<-time.After(100 * time.Millisecond)
		}
		if err := l.Writable(); err != nil {
			t.Errorf("after a second with space the log says that it is not writable: %v", err)
		}
	})
}

// TestWritesResumeOnceTheDiskWorks takes file handles, space or quota away until
// writes are refused, and frees them; there are no writes meanwhile.
func TestWritesResumeOnceTheDiskWorks(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		for _, kind := range []string{"create", "allocate", "write"} {
			t.Run(fmt.Sprint(kind, " ", cause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fs := disktest.New(seeded(t))
					l := open(t, small(fs))
					commit(t, l, "pods/a", "1")
					fs.SetFault(func(op disktest.Op) error {
						if op.Kind == kind {
							return cause
						}
						return nil
					})
					var err error
					for i := 0; err == nil && i < 20; i++ {
						_, err = l.Commit(t.Context(), store.Txn{Key: fmt.Sprintf("pods/b%d", i), Value: make([]byte, 900)})
					}
					if !errors.Is(err, cause) {
						t.Fatalf("a write gives %v", err)
					}
					_, passing := errors.AsType[*store.UnavailableError](l.Writable())
					if !passing || l.Durable() != nil || l.Stats().RefusedWrites == 0 {
						t.Fatalf("the log says it is writable: %v, durable: %v", l.Writable(), l.Durable())
					}
					fs.SetFault(nil)
					<-time.After(time.Second)
					synctest.Wait()
					if err := l.Writable(); err != nil {
						t.Fatalf("a second after the disk was repaired: %v", err)
					}
					commit(t, l, "pods/c", "1")
				})
			})
		}
	}
}

// TestZeroedEndOfAStoppedLogIsDetected zeroes the last pages of a log that was not
// closed, a while after the last write.
func TestZeroedEndOfAStoppedLogIsDetected(t *testing.T) {
	for _, rest := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			random := seeded(t)
			missed := 0
			const trials = 50
			for range trials {
				fs := disktest.New(random)
				l := open(t, revlog.Options{FS: fs, SegmentBytes: 64 << 10})
				for i := range 20 {
					commit(t, l, fmt.Sprintf("pods/%d", i), strings.Repeat("x", 100+random.IntN(900)))
				}
				<-time.After(rest)
				synctest.Wait()
				bad := fs.Clone()
				name := segmentOf(t, bad)
				data, end := bad.Bytes(name), int(l.Stats().Bytes)
				clear(data[(end-1)/4096*4096 : (end+4095)/4096*4096])
				bad.SetBytes(name, data)
				again, err := revlog.Open(t.Context(), revlog.Options{FS: bad})
				if err == nil {
					missed++
					if err := again.Close(); err != nil {
						t.Fatalf("close again: %v", err)
					}
				} else if _, ok := errors.AsType[*store.CorruptError](err); !ok {
					t.Fatal(err)
				}
			}
			t.Logf("%v after the last write %d of %d zeroed ends are not noticed", rest, missed, trials)
			if rest > 0 && missed > 0 {
				t.Errorf("%d of %d zeroed ends are taken for writes that were cut off", missed, trials)
			}
		})
	}
}
