package revlog_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

// TestALogWhoseDiskHangsIsNotWritable holds the sync of a group, or of a new segment's file.
func TestALogWhoseDiskHangsIsNotWritable(t *testing.T) {
	for kind, value := range map[string]int{"sync": 10, "allocate": 5000} { // the second has no room in the segment
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var held atomic.Bool
				release := make(chan struct{})
				system := disktest.New(rand.New(rand.NewPCG(1, 1)))
				system.SetWait(func(op disktest.Op) {
					if held.Load() && op.Kind == kind {
						<-release
					}
				})
				log, err := revlog.Open(t.Context(), small(system))
				if err != nil {
					t.Fatalf("open the log: %v", err)
				}
				ended := make(chan error, 1)
				go func() { ended <- log.Run(t.Context()) }() // ends with Close
				put(t, log, "pods/a", 10)
				<-time.After(time.Hour) // of the bubble's clock
				if err := log.Writable(); err != nil {
					t.Errorf("an idle log: %v", err)
				}
				held.Store(true)
				written := make(chan error, 1)
				go func() { // ends when the disk does what it was asked to
					_, err := log.Commit(t.Context(), store.Txn{Key: "pods/b", Value: make([]byte, value)})
					written <- err
				}()
				<-time.After(3*time.Second - time.Millisecond) // of the bubble's clock
				if err := log.Writable(); err != nil {
					t.Errorf("after almost 3 s: %v", err)
				}
				<-time.After(82 * time.Second) // of the bubble's clock
				err = log.Writable()
				if _, is := errors.AsType[*store.UnavailableError](err); !is ||
					!strings.Contains(err.Error(), "not answered for 1m25s") {
					t.Errorf("after 85 s: %v, want how long the disk has not answered", err)
				}
				if err := log.Durable(); err != nil {
					t.Errorf("nothing is lost, and Durable says %v", err)
				}
				held.Store(false)
				close(release)
				if err := <-written; err != nil {
					t.Errorf("the write that waited: %v", err)
				}
				synctest.Wait()
				if err := log.Writable(); err != nil {
					t.Errorf("after the disk has answered: %v", err)
				}
				if err := errors.Join(log.Close(), <-ended); err != nil {
					t.Errorf("close the log and wait for the end: %v", err)
				}
			})
		})
	}
}

func put(t *testing.T, log *revlog.Log, key string, bytes int) {
	t.Helper()
	if _, err := log.Commit(t.Context(), store.Txn{Key: key, Value: make([]byte, bytes)}); err != nil {
		t.Fatalf("commit to the log: %v", err)
	}
}

// TestAMovedDirectoryTakesNoWrites: what would be written there, who starts a server on its path
// does not find. Another log may be made in its place meanwhile, and neither writes into the
// other's directory.
func TestAMovedDirectoryTakesNoWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if runtime.GOOS == "windows" {
		t.Skip("an open directory cannot be moved there")
	}
	t.Parallel()
	parent := t.TempDir()
	at, away := filepath.Join(parent, "log"), filepath.Join(parent, "away")
	begin := func() (log *revlog.Log, end func()) {
		log, err := revlog.Open(t.Context(), revlog.Options{Dir: at, SegmentBytes: 4 << 10})
		if err != nil {
			t.Fatalf("open the log: %v", err)
		}
		ended := make(chan error, 1)
		go func() { ended <- log.Run(context.WithoutCancel(t.Context())) }() // ends with Close
		return log, func() {
			if err := errors.Join(log.Close(), <-ended); err != nil {
				t.Errorf("close the log and wait for the end: %v", err)
			}
		}
	}
	first, endFirst := begin()
	defer endFirst()
	put(t, first, "pods/a", 10)
	move(t, at, away)
	until(t, func() bool { return first.Writable() != nil })
	_, err := first.Commit(t.Context(), store.Txn{Key: "pods/b", Value: make([]byte, 5000)})
	if _, is := errors.AsType[*store.UnavailableError](err); !is || !errors.Is(err, disk.ErrMoved) ||
		!strings.Contains(err.Error(), "was moved or removed") {
		t.Fatalf("a write into a moved directory: %v", err)
	}
	second, endSecond := begin()
	put(t, second, "pods/c", 5000) // a segment of its own
	until(t, func() bool {
		return first.Writable() != nil && strings.Contains(first.Writable().Error(), "another directory")
	})
	endSecond()
	if err := os.RemoveAll(at); err != nil {
		t.Fatalf("remove a directory: %v", err)
	}
	move(t, away, at)
	until(t, func() bool { return first.Writable() == nil })
	put(t, first, "pods/d", 5000)
	page, err := first.Read(t.Context(), store.Query{Start: "a", End: "z"})
	if err != nil || len(page.Records) != 2 {
		t.Errorf("there are %d objects (%v), want those of the first log", len(page.Records), err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatalf("rename a file: %v", err)
	}
}

// until waits for up to a minute.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("it does not come true")
		}
	}
}
