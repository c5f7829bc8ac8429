package backup_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// TestCompactionWaitsForABackupAQuarterOfAnHour takes a backup that nobody reads.
func TestCompactionWaitsForABackupAQuarterOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
		if err != nil {
			t.Fatalf("open the log: %v", err)
		}
		ran := make(chan error, 1)
		go func() { ran <- log.Run(t.Context()) }() // ends with Close
		defer func() {
			if err := errors.Join(log.Close(), <-ran); err != nil {
				t.Errorf("close the log: %v", err)
			}
		}()
		writes := make([]revlog.Write, 2000)
		for i := range writes {
			writes[i] = revlog.Write{Key: fmt.Sprintf("pods/a/%d", i), Value: make([]byte, 1000)}
		}
		append2000 := func() int64 {
			t.Helper()
			revisions, err := log.Append(t.Context(), writes)
			if err != nil {
				t.Fatalf("write: %v", err)
			}
			return revisions[len(revisions)-1]
		}
		compact := func(upTo, want int64) {
			t.Helper()
			if done, err := log.Compact(t.Context(), store.Compaction{UpTo: upTo}); err != nil || done != want {
				t.Errorf("compaction up to %d reaches %d, %v; want %d", upTo, done, err, want)
			}
		}
		at := append2000()
		reader, writer := io.Pipe()
		ended := make(chan error, 1)
		go func() { // ends when the backup is read
			_, err := backup.Take(t.Context(), backup.Log(log), backup.Options{}, writer)
			ended <- err
			writer.CloseWithError(err)
		}()
		synctest.Wait() // it waits for its reader
		last := append2000()
		compact(last, at)
		<-time.After(14 * time.Minute)
		compact(last, at)
		<-time.After(2 * time.Minute)
		compact(last, last)
		_, _ = io.Copy(io.Discard, reader) // its error is that of Take
		if _, is := errors.AsType[*store.CompactedError](<-ended); !is {
			t.Error("a backup does not say that it was overtaken by compaction")
		}
	})
}

// slowManifest is a file system on which a manifest gets its name when it is let go.
type slowManifest struct {
	disk.FS

	renames chan chan struct{} // takes what lets a rename go; nil: nothing waits
}

func (s *slowManifest) Rename(from, to string) error {
	if s.renames != nil {
		letGo := make(chan struct{})
		s.renames <- letGo
		<-letGo
	}
	return s.FS.Rename(from, to)
}

// TestABackupBesideACompactionUnderWayIsWhole: it begins when the compaction has been decided, and history is still
// there.
func TestABackupBesideACompactionUnderWayIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &slowManifest{FS: disk.NewMemory()}
		log, err := revlog.Open(t.Context(), revlog.Options{Memory: true, FS: files})
		if err != nil {
			t.Fatalf("open the log: %v", err)
		}
		ran := make(chan error, 1)
		go func() { ran <- log.Run(t.Context()) }() // ends with Close
		defer func() {
			if err := errors.Join(log.Close(), <-ran); err != nil {
				t.Errorf("close the log: %v", err)
			}
		}()
		var last int64
		for i := range 20 {
			revisions, err := log.Append(t.Context(), []revlog.Write{{Key: "pods/a/b", Value: fmt.Append(nil, i)}})
			if err != nil {
				t.Fatalf("write: %v", err)
			}
			last = revisions[0]
		}
		synctest.Wait() // nothing else is renamed
		files.renames = make(chan chan struct{})
		compacted := make(chan error, 1)
		go func() { // ends when the manifest has its name
			_, err := log.Compact(t.Context(), store.Compaction{UpTo: last - 5})
			compacted <- err
		}()
		letGo := <-files.renames
		reader, writer := io.Pipe()
		go func() { // ends when the backup is read
			_, err := backup.Take(t.Context(), backup.Log(log), backup.Options{History: true}, writer)
			writer.CloseWithError(err)
		}()
		synctest.Wait() // it waits for the compaction, or has held the history before it and waits for its reader
		files.renames = nil
		close(letGo)
		if err := <-compacted; err != nil {
			t.Fatalf("compact: %v", err)
		}
		h, records, err := readAll(reader)
		if err != nil || h.Since != last-5 || len(records) != 6 {
			t.Errorf("a backup since %d with %d records, %v; want 6 since %d", h.Since, len(records), err, last-5)
		}
	})
}
