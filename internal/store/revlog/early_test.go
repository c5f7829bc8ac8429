package revlog_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

// early makes the log of a copy.
func early(fs *disktest.Disk) revlog.Options {
	o := small(fs)
	o.Early = true
	return o
}

// TestAnEarlyWriteIsVisibleBeforeItIsOnDisk: so is the next one; a compaction and Sync wait for the disk.
func TestAnEarlyWriteIsVisibleBeforeItIsOnDisk(t *testing.T) {
	synctest.Test(t, visibleEarly)
}

func visibleEarly(t *testing.T) {
	fs := disktest.New(seeded(t))
	hangs, syncing := make(chan struct{}), make(chan struct{}, 16)
	armed := make(chan struct{})
	fs.SetWait(func(op disktest.Op) {
		select {
		case <-armed:
		default:
			return
		}
		if op.Kind == "sync" && strings.HasSuffix(op.Name, ".log") {
			syncing <- struct{}{}
			<-hangs
		}
	})
	l := open(t, early(fs))
	close(armed)
	first := commit(t, l, "pods/a", "1") // returns while the disk hangs
	<-syncing
	second := commit(t, l, "pods/b", "2") // does not wait for that either
	page, err := l.Read(t.Context(), store.Query{Start: "pods/a", End: "pods0"})
	if err != nil || len(page.Records) != 2 || page.Revision != second {
		t.Errorf("read what is not on disk yet: %+v, %v", page, err)
	}
	synctest.Wait()
	if err := l.Writable(); err != nil {
		t.Errorf("not writable, before the disk has taken long: %v", err)
	}
	<-time.After(5 * time.Second)
	if err := l.Writable(); err == nil {
		t.Error("writable, although the disk does not answer")
	}
	order := make(chan string, 3)
	go func() { // ends when the disk answers
		_, err := l.Compact(t.Context(), store.Compaction{UpTo: first})
		order <- fmt.Sprint("compacted ", err)
	}()
	go func() { // as above
		order <- fmt.Sprint("synced ", l.Sync(t.Context()))
	}()
	synctest.Wait()
	select {
	case what := <-order:
		t.Errorf("%s, before the disk has answered", what)
	default:
	}
	close(hangs)
	for range 2 {
		if what := <-order; !strings.HasSuffix(what, "<nil>") {
			t.Error(what)
		}
	}
	if s := l.Stats(); s.Compacted != first {
		t.Errorf("compacted up to %d instead of %d", s.Compacted, first)
	}
}

// TestAPowerFailureTakesTheLastEarlyWritesAlone crashes the machine in every call of a workload, each in a run of
// its own: what is there afterwards are the first writes, and those that were synced are among them.
func TestAPowerFailureTakesTheLastEarlyWritesAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seed := seeded(t).Uint64()
	most := 0
	for crashing := 1; ; crashing++ {
		random := rand.New(rand.NewPCG(seed, uint64(crashing)))
		fs := disktest.New(rand.New(rand.NewPCG(seed, uint64(-crashing)))) // another goroutine syncs
		fs.SetFault(func(op disktest.Op) error {
			if op.Call == crashing {
				return disktest.ErrCrashed
			}
			return nil
		})
		l, stop, err := start(t, early(fs))
		if err != nil {
			continue // at the start, which is as without Early
		}
		var writes []store.Txn // with their revisions instead of those expected
		var compacted, synced int64
		for i := range 60 {
			if i%16 == 15 {
				if err := l.Sync(t.Context()); err != nil {
					break
				}
				synced = writes[i-1].ExpectedModRevision
			}
			if i%20 == 19 {
				upTo := writes[random.IntN(len(writes))].ExpectedModRevision
				done, err := l.Compact(t.Context(), store.Compaction{UpTo: upTo})
				if err != nil {
					break
				}
				compacted = max(compacted, done)
			}
			w := revlog.Write{Key: fmt.Sprintf("pods/%d", random.IntN(6)), Value: make([]byte, 300+random.IntN(300))}
			revisions, err := l.Append(t.Context(), []revlog.Write{w})
			if err != nil {
				writes = append(writes, store.Txn{Key: w.Key, Value: w.Value}) // may be there
				break
			}
			writes = append(writes, store.Txn{Key: w.Key, Value: w.Value, ExpectedModRevision: revisions[0]})
		}
		_ = stop() // it says that the machine has crashed
		if !fs.Crashed() {
			if most < 2 {
				t.Errorf("%d writes were lost in any run: it is not shown that they are visible early", most)
			}
			return
		}
		most = max(most, survivePowerFailure(t, fs.PowerLoss(), writes, max(compacted, synced)))
	}
}

// survivePowerFailure compares a log with the writes that its last life has acknowledged, and maybe one more, and
// returns how many are lost: none up to kept.
func survivePowerFailure(t *testing.T, fs *disktest.Disk, writes []store.Txn, kept int64) (lost int) {
	t.Helper()
	l, stop, err := start(t, early(fs))
	if err != nil {
		t.Fatalf("open after a power failure: %v", err)
	}
	s := l.Stats()
	oracle := &storetest.Oracle{}
	next := int64(revlog.DefaultBaseRevision) + 1
	for _, w := range writes {
		switch {
		case next <= s.Revision:
			oracle.Add(next, w)
		case w.ExpectedModRevision != 0:
			lost++
		}
		next++
	}
	if s.Revision < kept {
		t.Fatalf("the log ends at %d, but was on disk up to %d", s.Revision, kept)
	}
	oracle.Compact(s.Compacted)
	if err := oracle.CompareAt(t.Context(), l, nil); err != nil {
		t.Fatalf("compare the states: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	return lost
}

// TestAPowerFailureAfterAFailedSyncTakesNothingThatWasSynced: the process is restarted after the disk has failed a
// sync, and reads from the page cache what is not on disk.
func TestAPowerFailureAfterAFailedSyncTakesNothingThatWasSynced(t *testing.T) {
	random := seeded(t)
	for range 40 {
		fs := disktest.New(rand.New(rand.NewPCG(random.Uint64(), 0)))
		l, stop, err := start(t, early(fs))
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		fs.SetFault(func(op disktest.Op) error {
			if op.Kind == "sync" && strings.HasSuffix(op.Name, ".log") {
				return syscall.EIO
			}
			return nil
		})
		for i := range 10 {
			w := revlog.Write{Key: fmt.Sprintf("pods/%d", i), Value: make([]byte, 600)}
			if _, err := l.Append(t.Context(), []revlog.Write{w}); err != nil {
				break // the disk has failed already
			}
		}
		if err := l.Sync(t.Context()); err == nil {
			t.Fatal("a sync that failed was reported as done")
		}
		_ = stop() // it says that the disk has failed
		fs.Crash()
		fs = fs.ProcessCrash()
		if l, stop, err = start(t, early(fs)); err != nil {
			t.Fatalf("open after a failed sync: %v", err)
		}
		if err := l.Sync(t.Context()); err != nil {
			t.Fatalf("sync: %v", err)
		}
		synced := l.Stats().Revision
		if err := stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
		fs.Crash()
		if l, stop, err = start(t, early(fs.PowerLoss())); err != nil {
			t.Fatalf("open after a power failure: %v", err)
		}
		if is := l.Stats().Revision; is < synced {
			t.Errorf("the log ends at %d, but Sync has said that it is on disk up to %d", is, synced)
		}
		if err := stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
	}
}

// tellsOnce is a disk that tells one of the syncs that wait for it that it has failed, as Linux does for an open file.
// Each sync sends what it waits for to syncing while that is not nil.
type tellsOnce struct {
	disk.FS

	syncing atomic.Pointer[chan chan error]
}

type onceFile struct {
	disk.File

	of   *tellsOnce
	name string
}

func (d *tellsOnce) Create(name string) (disk.File, error) {
	f, err := d.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &onceFile{f, d, name}, nil
}

func (f *onceFile) Sync() error {
	syncing := f.of.syncing.Load()
	if syncing == nil || !strings.HasSuffix(f.name, ".log") {
		return f.File.Sync()
	}
	told := make(chan error)
	*syncing <- told
	return <-told
}

// TestWhoWaitsForASyncHearsThatItFailed: the kernel tells it once.
func TestWhoWaitsForASyncHearsThatItFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, syncing := &tellsOnce{FS: disk.NewMemory()}, make(chan chan error, 2)
		l, stop, err := start(t, revlog.Options{FS: fs, Early: true})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		fs.syncing.Store(&syncing)
		commit(t, l, "pods/a", "1")
		first := <-syncing
		synced := make(chan error, 1)
		go func() { synced <- l.Sync(t.Context()) }() // ends when the disk has failed
		synctest.Wait()
		select {
		case second := <-syncing: // it waits for the same pages, and hears nothing
			second <- nil
		default:
		}
		synctest.Wait()
		fs.syncing.Store(nil)
		first <- syscall.EIO
		if err := <-synced; err == nil {
			t.Error("what the disk has lost was reported as synced")
		}
		_ = stop() // it says that the disk has failed
	})
}
