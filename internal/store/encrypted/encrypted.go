// Package encrypted encrypts the values of a store at rest, as a file of upstream's kind
// EncryptionConfiguration says.
//
// A [Store] is a store over another one, which has the encrypted values. A generation is one
// configuration with its [Keys]; the one in force can be replaced while the store is in use
// (reload). A feed is that of the other store, with its values decrypted. A [Layout] encrypts
// what a store keeps in etcd, where kube-apiserver can read it.
//
// Keys of the store are not encrypted. They are the authenticated data of the values, as in
// upstream, where they are the keys of etcd: a value that is moved to another key cannot be read with
// providers that authenticate (aesgcm, kms). The format of the values, and the providers,
// are upstream's (k8s.io/apiserver/pkg/server/options/encryptionconfig).
//
// A version that was superseded and whose key is no longer configured is treated as if
// compaction had removed it. The latest version of a key must be readable: Reload refuses
// a configuration that cannot read all of them.
package encrypted

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/store"
)

// Store is a store.Store over another one. It is safe for concurrent use.
type Store struct {
	store.Store
	*Keys

	// switching is held for reading while a value is encrypted and committed, and for writing
	// while another generation comes into force: no value is written with keys that are not
	// configured any more. Both take as long as a write.
	switching sync.RWMutex
	// turn holds a token while one caller loads a configuration.
	turn chan struct{}
	// lost is the last live value that could not be decrypted, nil if there was none since
	// the generation came into force.
	lost atomic.Pointer[store.UnreadableError]
}

var _ store.Store = (*Store)(nil)

// Open loads the configuration. The caller closes the Store, which does not close below.
// A key management service that does not answer is no error: values that need it cannot
// be read and written until it does.
func Open(ctx context.Context, below store.Store, cfg Config) (*Store, error) {
	keys, err := openKeys(ctx, cfg, func(key string) string { return key })
	if err != nil {
		return nil, err
	}
	return &Store{Store: below, Keys: keys, turn: make(chan struct{}, 1)}, nil
}

// Readable returns the last error of a value that is the latest version of its key and cannot
// be decrypted; nil if there was none.
func (s *Store) Readable() error {
	if lost := s.lost.Load(); lost != nil {
		return lost
	}
	return nil
}

// Read implements store.Store. A value that cannot be decrypted is *store.UnreadableError,
// or *store.CompactedError if the key has a later version.
func (s *Store) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Store.Read(ctx, q)
	if err != nil {
		return page, err
	}
	g := s.current.Load()
	for i := range page.Records {
		r := &page.Records[i]
		if g.plain(r.Key, r.Value) {
			continue
		}
		if r.Value, err = s.decrypt(ctx, g, *r); err != nil {
			requested := q.AtRevision
			if requested == 0 {
				requested = page.Revision
			}
			return store.Page{}, s.gone(ctx, err, requested)
		}
	}
	if g.number > 1 || g.configured(store.ResourceOf(q.Start)) { // a former one may have encrypted it
		page.Generation = g.number
	}
	return page, nil
}

// Commit implements store.Store. An error of the encryption means that nothing was written.
func (s *Store) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	s.switching.RLock()
	defer s.switching.RUnlock()
	g := s.current.Load()
	if transformer := g.transformer(t.Key); transformer != nil && !t.Delete {
		var err error
		if t.Value, err = transformer.encrypt(ctx, t.Key, t.Value); err != nil {
			return store.Committed{}, fmt.Errorf("encrypt %q: %w", t.Key, err)
		}
	}
	done, err := s.Store.Commit(ctx, t)
	conflict, is := errors.AsType[*store.ConflictError](err)
	if !is || conflict.Current == nil || g.plain(t.Key, conflict.Current.Value) {
		return done, err
	}
	current := *conflict.Current
	// Before the lock is released: after two more reloads nobody may have its key.
	if current.Value, err = s.decrypt(ctx, g, current); err != nil {
		return store.Committed{}, err
	}
	return store.Committed{}, &store.ConflictError{Key: conflict.Key, Expected: conflict.Expected, Current: &current}
}

// Stale reports whether a version of a key is the latest one, and would be encrypted in
// another way if it were written now: then a write that changes nothing else is useful.
func (s *Store) Stale(ctx context.Context, key string, revision int64) (bool, error) {
	if s.current.Load().transformer(key) == nil {
		return false, nil
	}
	page, err := s.Store.Read(ctx, store.Query{Start: key})
	if err != nil {
		return false, err
	}
	if len(page.Records) == 0 || page.Records[0].ModRevision != revision {
		return false, nil // it has changed meanwhile
	}
	_, stale, err := s.current.Load().decrypt(ctx, key, page.Records[0].Value) // what is in force now has its key
	if err != nil {
		return false, unreadable(page.Records[0], err)
	}
	return stale, nil
}

// decrypt returns the value of a record. Its errors are *store.UnreadableError.
func (s *Store) decrypt(ctx context.Context, g *generation, r store.Record) ([]byte, error) {
	v, _, err := g.decrypt(ctx, r.Key, r.Value)
	if err == nil {
		return v, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, unreadable(r, err)
}

func unreadable(r store.Record, cause error) *store.UnreadableError {
	_, away := errors.AsType[awayError](cause)
	return &store.UnreadableError{
		Key: r.Key, Revision: r.ModRevision, Encryption: Encryption(r.Value), Temporary: away, Cause: cause,
	}
}

// gone turns the error of a value of a superseded version into that of a compaction. Others
// stay, and those of live values are remembered for Readable.
func (s *Store) gone(ctx context.Context, err error, requested int64) error {
	e, is := errors.AsType[*store.UnreadableError](err)
	if !is || e.Temporary {
		return err
	}
	page, readErr := s.Store.Read(ctx, store.Query{Start: e.Key, Want: func(string, int64) bool { return false }})
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if len(page.Records) == 1 && page.Records[0].ModRevision == e.Revision {
		s.lost.Store(e)
		return err
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "a read needs history whose key is no longer configured: it expires",
		slog.String("key", e.Key), slog.Int64("revision", e.Revision), slog.String("encryption", e.Encryption))
	return &store.CompactedError{
		Resource: store.ResourceOf(e.Key), Requested: requested, Floor: max(e.Revision, requested) + 1, Reason: reasonKey,
	}
}

// reasonKey is the reason in *store.CompactedError.
const reasonKey = "key"
