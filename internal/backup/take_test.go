package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// TestABackupIsTheStateAtOneRevision takes backups while keys are written and history is compacted. The
// author of the writes knows what each revision was.
func TestABackupIsTheStateAtOneRevision(t *testing.T) {
	for _, history := range []bool{false, true} {
		log := openLog(t, revlog.Options{Memory: true, SegmentBytes: 64 << 10})
		a := newAuthor(log, 1)
		a.writes(t, 200)
		ctx, stop := context.WithCancel(t.Context())
		var files [][]byte
		var g errgroup.Group
		g.Go(func() error {
			for ctx.Err() == nil {
				if err := a.write(context.WithoutCancel(ctx)); err != nil {
					return err
				}
			}
			return nil
		})
		g.Go(func() error {
			for ctx.Err() == nil {
				_, err := log.Compact(context.WithoutCancel(ctx), store.Compaction{OlderThan: time.Millisecond, Purge: true})
				if err != nil {
					return err
				}
			}
			return nil
		})
		for range 10 {
			var b bytes.Buffer
			_, err := backup.Take(t.Context(), backup.Log(log), backup.Options{History: history}, &slow{to: &b})
			if err != nil {
				t.Errorf("take a backup: %v", err)
			}
			files = append(files, b.Bytes())
		}
		stop()
		if err := g.Wait(); err != nil {
			t.Fatalf("write and compact: %v", err)
		}
		for _, file := range files {
			h, records, err := readAll(bytes.NewReader(file))
			if err != nil {
				t.Fatalf("read a backup: %v", err)
			}
			if want := a.at(h.Revision); len(want) == 0 || !maps.Equal(live(records), want) {
				t.Errorf("history %v: the backup at %d has %d objects, which are not the %d of that revision",
					history, h.Revision, len(live(records)), len(want))
			}
		}
	}
}

// slow is a writer that lets others work between two blocks.
type slow struct{ to io.Writer }

func (s *slow) Write(p []byte) (int, error) {
	timer := time.NewTimer(2 * time.Millisecond)
	defer timer.Stop()
	<-timer.C
	return s.to.Write(p)
}

// TestABackupWithHistoryHasEveryStateThatIsKept restores each revision of a backup's history.
func TestABackupWithHistoryHasEveryStateThatIsKept(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 2)
	a.writes(t, 150)
	since, err := log.Compact(t.Context(), store.Compaction{UpTo: a.last - 60})
	if err != nil || since != a.last-60 {
		t.Fatalf("compact: %d, %v", since, err)
	}
	file := taken(t, log, true)
	h, records, err := readAll(bytes.NewReader(file))
	if err != nil || h.Since != since || h.Revision != a.last || h.SinceTime.IsZero() {
		t.Fatalf("header %+v, %v; want history from %d to %d", h, err, since, a.last)
	}
	if now := a.at(a.last); !maps.Equal(live(records), now) {
		t.Errorf("the live objects are %d, want %d", len(live(records)), len(now))
	}
	for at := since; at <= a.last; at += 6 {
		dir, done := restored(t, file, backup.RestoreOptions{At: backup.Moment{Revision: at}})
		log := openLog(t, revlog.Options{Dir: dir + "/log"})
		if got := held(t, log); !maps.Equal(got, a.at(at)) || done.At != at || done.Objects != int64(len(got)) {
			t.Errorf("at %d: %d objects (%d at %d), want %d", at, len(got), done.Objects, done.At, len(a.at(at)))
		}
	}
	for _, m := range []backup.Moment{
		{Revision: since - 1}, {Revision: a.last + 1}, {Time: h.SinceTime.Add(-time.Second)},
	} {
		_, err := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: t.TempDir(), At: m})
		if err == nil {
			t.Errorf("%+v is restored, which the backup does not have", m)
		}
	}
	without := taken(t, log, false)
	_, err = backup.Restore(t.Context(), bytes.NewReader(without),
		backup.RestoreOptions{Dir: t.TempDir(), At: backup.Moment{Revision: a.last - 1}})
	if err == nil {
		t.Error("an earlier state is restored from a backup without history")
	}
}

// TestTheStateAtATimeIsRestored changes objects at two times.
func TestTheStateAtATimeIsRestored(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 3)
	a.writes(t, 50)
	before := a.last
	time1 := lastTime(t, log)
	for lastTime(t, log).Equal(time1) { // a write in a later millisecond
		a.writes(t, 1)
	}
	first := a.last
	file := taken(t, log, true)
	dir, done := restored(t, file, backup.RestoreOptions{At: backup.Moment{Time: time1}})
	got := held(t, openLog(t, revlog.Options{Dir: dir + "/log"}))
	if want := a.at(first - 1); !maps.Equal(got, want) || done.At < before || done.At >= first {
		t.Errorf("at %v: %d objects at %d, want %d", time1, len(got), done.At, len(want))
	}
}

// lastTime returns when the last write was made.
func lastTime(t *testing.T, log *revlog.Log) time.Time {
	t.Helper()
	last, err := log.Progress(t.Context())
	if err != nil {
		t.Fatalf("read the revision: %v", err)
	}
	changes, err := log.Changes(t.Context(), store.From{After: last - 1, UpTo: last})
	if err != nil {
		t.Fatalf("open the changes: %v", err)
	}
	batch, err := changes.Next(t.Context())
	if err = errors.Join(err, changes.Close()); err != nil || len(batch.Changes) != 1 {
		t.Fatalf("read the last change: %+v, %v", batch, err)
	}
	return batch.Changes[0].Time
}

// TestABackupEndsWithItsReaderAndItsContext: nothing holds compaction after that.
func TestABackupEndsWithItsReaderAndItsContext(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 4)
	a.writes(t, 500)
	full := errors.New("no space")
	_, err := backup.Take(t.Context(), backup.Log(log), backup.Options{}, failing{after: 20_000, with: full})
	if !errors.Is(err, full) {
		t.Errorf("with a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := backup.Take(ctx, backup.Log(log), backup.Options{}, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	a.writes(t, 1)
	if done, err := log.Compact(t.Context(), store.Compaction{UpTo: a.last}); err != nil || done != a.last {
		t.Errorf("compaction up to %d reaches %d, %v", a.last, done, err)
	}
}

// failing is a writer that fails after some bytes.
type failing struct {
	after int
	with  error
}

func (f failing) Write(p []byte) (int, error) {
	if len(p) > f.after {
		return f.after, f.with
	}
	return len(p), nil
}
