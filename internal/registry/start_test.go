package registry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

const takesNone = "the start waits until the store takes writes"

var errAway = errors.New("away")

// absentStore can be read, and takes writes, only some time after it was made.
type absentStore struct {
	*storetest.List

	readable, writable time.Time
	answer             error // to the first write that is taken
}

func (s *absentStore) Progress(ctx context.Context) (int64, error) {
	if time.Now().Before(s.readable) {
		return 0, &store.UnavailableError{Reading: true, Cause: errAway}
	}
	return s.List.Progress(ctx)
}

func (s *absentStore) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if time.Now().Before(s.writable) {
		return store.Committed{}, &store.UnavailableError{Cause: errAway}
	}
	done, err := s.List.Commit(ctx, t)
	if err == nil {
		err, s.answer = s.answer, nil
	}
	return done, err
}

// TestAStartWaitsForItsStore: for as long as it takes, and then serves. Whoever asks meanwhile learns that it is
// alive, but not ready.
func TestAStartWaitsForItsStore(t *testing.T) {
	for name, c := range map[string]struct {
		readable, writable time.Duration
		unknown            bool
		says               string
	}{
		"that cannot be read yet":                  {readable: 5 * time.Minute, says: "for=store"},
		"that takes no writes":                     {writable: 5 * time.Minute, says: takesNone},
		"that does not say what became of a write": {unknown: true, says: takesNone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := max(c.readable, c.writable)
				s := &absentStore{
					List: storetest.NewList(), readable: time.Now().Add(c.readable), writable: time.Now().Add(c.writable),
				}
				if c.unknown {
					s.answer = store.ErrOutcomeUnknown
				}
				var log bytes.Buffer
				r := registry.New(registry.Config{
					Store: s, Live: kinds.NewLive(builtin.Catalog()), Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- r.Run(ctx) }() // ends with ctx
				<-time.After(late / 2)
				synctest.Wait()
				if late > 0 && r.Ready() == nil {
					t.Error("it is ready before its store is there")
				}
				if err := r.Alive(); err != nil {
					t.Errorf("it counts as dead: %v", err)
				}
				<-time.After(late/2 + 2*time.Second)
				synctest.Wait()
				if err := r.Ready(); err != nil {
					t.Errorf("it is not ready with its store: %v", err)
				}
				stop()
				if err := <-ended; err != nil {
					t.Errorf("run the registry: %v", err)
				}
				if !strings.Contains(log.String(), c.says) {
					t.Errorf("it logs %s, want %q", log.String(), c.says)
				}
				if n := strings.Count(log.String(), "for=store"); n > 60 {
					t.Errorf("it logs %d times that it waits", n)
				}
				if r.Alive() == nil {
					t.Error("it is alive after its end")
				}
			})
		})
	}
}
