package revlog_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
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
