package backup_test

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// TestATimeThatCameTwiceIsNotRestored restores states of a server whose clock was set back by a minute.
func TestATimeThatCameTwiceIsNotRestored(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 13)
	a.writes(t, 300)
	first := a.done[0].revision
	began := time.Now().Truncate(time.Second)
	const setBack = 120 // after so many seconds, and writes
	clock := func(revision int64) time.Time {
		at := began.Add(time.Duration(revision-first) * time.Second)
		if revision-first >= setBack {
			at = at.Add(-time.Minute)
		}
		return at
	}
	var file bytes.Buffer
	source := backup.Log(log)
	source.Store = timed{log, clock}
	if _, err := backup.Take(t.Context(), source, backup.Options{History: true}, &file); err != nil {
		t.Fatalf("take a backup: %v", err)
	}
	for _, c := range []struct {
		seconds, want int64 // of the state; 0: there is none
	}{
		{59, 59}, {60, 0}, {90, 0}, {118, 0}, {119, 179}, {120, 180},
	} {
		dir := t.TempDir()
		done, err := backup.Restore(t.Context(), bytes.NewReader(file.Bytes()), backup.RestoreOptions{
			Dir: dir, At: backup.Moment{Time: began.Add(time.Duration(c.seconds) * time.Second)},
		})
		if c.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "clock was set back") {
				t.Errorf("after %d s: %v", c.seconds, err)
			}
			continue
		}
		if err != nil || done.At != first+c.want {
			t.Errorf("after %d s: revision %d, %v; want %d", c.seconds, done.At, err, first+c.want)
			continue
		}
		restored, end := opened(t, dir+"/log")
		if got := held(t, restored); !maps.Equal(got, a.at(done.At)) {
			t.Errorf("after %d s there are %d objects, want %d", c.seconds, len(got), len(a.at(done.At)))
		}
		end()
	}
}

// timed is a log whose writes were made by a clock.
type timed struct {
	*revlog.Log

	clock func(revision int64) time.Time
}

// Read implements store.Store.
func (s timed) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Log.Read(ctx, q)
	for i, r := range page.Records {
		page.Records[i].Time = s.clock(r.ModRevision)
	}
	return page, err
}

// Changes implements store.Store.
func (s timed) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	changes, err := s.Log.Changes(ctx, f)
	return timedChanges{changes, s.clock}, err
}

type timedChanges struct {
	store.Changes

	clock func(revision int64) time.Time
}

// Next implements store.Changes.
func (c timedChanges) Next(ctx context.Context) (store.Batch, error) {
	batch, err := c.Changes.Next(ctx)
	for i, change := range batch.Changes {
		batch.Changes[i].Time = c.clock(change.Revision)
		if change.Previous != nil {
			change.Previous.Time = c.clock(change.Previous.ModRevision)
		}
	}
	return batch, err
}
