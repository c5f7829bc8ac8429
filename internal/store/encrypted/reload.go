package encrypted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"

	"github.com/gapless-io/gapless/internal/store"
)

const (
	// lookEvery is how often the file is read to see whether it has changed. Upstream looks
	// every minute.
	lookEvery = time.Second
	// retryAtMost is the longest time between two tries to load a file that was refused.
	retryAtMost = time.Minute
	// verifyPage is how many records are read at once to see whether they can be decrypted.
	verifyPage = 1000
	// maxNamed is how many of the values that cannot be decrypted an error names.
	maxNamed = 3
)

// Run follows the configuration file until ctx ends, which is no error.
func (s *Store) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var refused string // the hash of the file that was refused last
	var wait time.Duration
	var again time.Time // when to try it again
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		hash, err := encryptionconfig.GetEncryptionConfigHash(s.cfg.File)
		if err == nil && hash == s.current.Load().hash {
			refused = ""
			continue
		}
		if hash == refused && wait > 0 && time.Now().Before(again) {
			continue
		}
		if hash != refused {
			wait = 0
		}
		if err = s.Reload(ctx); err == nil || ctx.Err() != nil {
			refused, wait = "", 0
			continue
		}
		refused, wait = hash, min(max(2*wait, lookEvery), retryAtMost)
		again = time.Now().Add(wait)
	}
}

// Reload puts the file in force if it has changed: from then on writes use its first
// provider. It refuses a file that is invalid, whose key management services are not
// healthy, or which cannot decrypt the latest version of every object: the former
// configuration stays in force. What it does is logged and counted.
func (s *Store) Reload(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	g, err := s.reload(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		s.metrics.count(err)
		s.cfg.Logger.LogAttrs(ctx, slog.LevelError,
			"the encryption configuration was not reloaded: the former one stays in force",
			slog.String("file", s.cfg.File), slog.Any("error", err))
	case g != nil:
		s.metrics.inForce(g.hash)
		s.metrics.count(nil)
		s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "the encryption configuration was reloaded",
			slog.String("file", s.cfg.File), slog.String("hash", g.hash))
	}
	return err
}

// reload returns the generation that came into force; nil if the file has not changed.
func (s *Store) reload(ctx context.Context) (*generation, error) {
	former := s.current.Load()
	hash, err := encryptionconfig.GetEncryptionConfigHash(s.cfg.File)
	if err != nil || hash == former.hash {
		return nil, err
	}
	g, err := s.load() //nolint:contextcheck // its connections live longer than the call
	if err != nil {
		return nil, err
	}
	if err := s.install(ctx, g, former); err != nil {
		g.stop()
		return nil, err
	}
	return g, nil
}

// install puts a generation in force that can read everything that former could.
func (s *Store) install(ctx context.Context, g, former *generation) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/healthz", http.NoBody)
	if err != nil {
		return err
	}
	if err := g.healthy(req); err != nil {
		return fmt.Errorf("the key management services of %s are not healthy: %w", s.cfg.File, err)
	}
	through, err := s.verify(ctx, g, former)
	if err != nil {
		return err
	}
	s.switching.Lock()
	defer s.switching.Unlock()
	// The values that were written since then: few.
	if err := s.verifyAfter(ctx, g, former, through); err != nil {
		return err
	}
	g.previous.Store(former)
	g.number = former.number + 1
	s.current.Store(g)
	s.lost.Store(nil)
	if before := former.previous.Swap(nil); before != nil && before.stop != nil {
		before.stop()
	}
	if former.stop != nil {
		time.AfterFunc(former.grace, former.stop) // requests that are under way use its connections
	}
	return nil
}

// verify reads the latest version of every key that one of the generations encrypts, and
// returns the revision at which it has begun.
func (s *Store) verify(ctx context.Context, g, former *generation) (through int64, err error) {
	if through, err = s.Progress(ctx); err != nil {
		return 0, err
	}
	var lost losses
	q := store.Query{End: store.PrefixEnd(""), Limit: verifyPage, Buffer: &store.Buffer{}}
	q.Want = func(key string, _ int64) bool {
		resource := store.ResourceOf(key)
		return g.configured(resource) || former.configured(resource)
	}
	for {
		page, err := s.Store.Read(ctx, q)
		if err != nil {
			return 0, fmt.Errorf("verify that the encryption configuration can decrypt everything: %w", err)
		}
		for _, r := range page.Records {
			if r.Value == nil {
				continue
			}
			if _, _, err := g.own(ctx, r.Key, r.Value); err != nil {
				lost.add(unreadable(r, err))
			}
		}
		if !page.More {
			return through, lost.err()
		}
		q.Start = page.Records[len(page.Records)-1].Key + "\x00"
	}
}

// verifyAfter is verify for what was written after a revision.
func (s *Store) verifyAfter(ctx context.Context, g, former *generation, after int64) error {
	through, err := s.Progress(ctx)
	if err != nil {
		return err
	}
	changes, err := s.Store.Changes(ctx, store.From{
		After: after, UpTo: max(through, 1),
		Want: func(c store.Change) (value, previous bool) {
			resource := store.ResourceOf(c.Key)
			return g.configured(resource) || former.configured(resource), false
		},
	})
	if _, compacted := errors.AsType[*store.CompactedError](err); compacted {
		_, err = s.verify(ctx, g, former)
		return err
	}
	if err != nil {
		return err
	}
	defer func() { _ = changes.Close() }() // it holds no more than its position
	latest := map[string]*store.UnreadableError{}
	for {
		batch, err := changes.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, c := range batch.Changes {
			delete(latest, c.Key)
			if c.Value == nil {
				continue
			}
			if _, _, err := g.own(ctx, c.Key, c.Value); err != nil {
				latest[c.Key] = unreadable(store.Record{Key: c.Key, Value: c.Value, ModRevision: c.Revision}, err)
			}
		}
	}
	var lost losses
	for _, e := range latest {
		lost.add(e)
	}
	return lost.err()
}

// losses are values that cannot be decrypted.
type losses struct {
	count int
	some  []*store.UnreadableError
}

func (l *losses) add(e *store.UnreadableError) {
	if l.count++; len(l.some) < maxNamed {
		l.some = append(l.some, e)
	}
}

func (l *losses) err() error {
	if l.count == 0 {
		return nil
	}
	texts := make([]string, 0, len(l.some))
	for _, e := range l.some {
		texts = append(texts, e.Error())
	}
	return fmt.Errorf(
		"%d stored values cannot be decrypted with it: list the providers and keys that they are encrypted with until "+
			"everything is rewritten: %s",
		l.count, strings.Join(texts, "; "))
}
