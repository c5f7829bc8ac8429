package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/gapless-io/gapless/internal/store"
)

// errTTL says that there is no time to live in gapless (docs/limits.md).
var errTTL = errors.New("time to live is not supported")

// Storage is upstream's storage.Interface over a Server. It is safe for concurrent
// use.
type Storage struct {
	server atomic.Pointer[Server]
	codec  *codec
}

var _ storage.Interface = (*Storage)(nil)

// New returns the interface over a running server.
func New(s *Server) (*Storage, error) {
	c, err := newCodec()
	if err != nil {
		return nil, err
	}
	st := &Storage{codec: c}
	st.server.Store(s)
	return st, nil
}

// Use makes later calls go to another server: the same directory, opened again.
func (s *Storage) Use(server *Server) { s.server.Store(server) }

// Server is the server that calls go to now.
func (s *Storage) Server() *Server { return s.server.Load() }

// Transform replaces what values go through when they are written and read, and
// returns what it was.
func (s *Storage) Transform(t value.Transformer) value.Transformer { return s.codec.swap(t) }

// Codec makes the stored form of objects, before Transform.
func (s *Storage) Codec() runtime.Codec { return s.codec.Codec }

// Versioner implements storage.Interface.
func (s *Storage) Versioner() storage.Versioner { return s.codec.versioner }

// Create implements storage.Interface. It answers after the object is visible to
// every reader.
func (s *Storage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	p, err := placeOf(key)
	if err != nil {
		return err
	}
	if rv, err := s.codec.versioner.ObjectResourceVersion(obj); err == nil && rv != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if ttl != 0 {
		return errTTL
	}
	plain, stored, err := s.codec.encode(ctx, p, obj)
	if err != nil {
		return err
	}
	revision, err := s.commit(ctx, store.Txn{Key: s.Server().storeKey(p), Value: stored})
	if conflicts(err) {
		return storage.NewKeyExistsError(key, 0)
	}
	if err != nil {
		return err
	}
	return s.show(plain, revision, out)
}

// Delete implements storage.Interface; the suggestion is not used.
func (s *Storage) Delete( //nolint:revive // upstream's signature
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, opts storage.DeleteOptions,
) error {
	p, err := placeOf(key)
	if err != nil {
		return err
	}
	if opts.ExpectTransformOrDecodeError {
		return errors.New("unsafe deletion is not supported")
	}
	for {
		found, err := s.find(ctx, key, p, out)
		if err != nil {
			return err
		}
		if found.revision == 0 {
			return storage.NewKeyNotFoundError(key, found.at)
		}
		if err := preconditions.Check(key, out); err != nil {
			return err
		}
		if err := validate(ctx, out); err != nil {
			return err
		}
		revision, err := s.commit(ctx, store.Txn{Key: s.Server().storeKey(p), Delete: true, ExpectedModRevision: found.revision})
		if conflicts(err) {
			continue
		}
		if err != nil {
			return err
		}
		return s.codec.versioner.UpdateObject(out, uint64(revision))
	}
}

// GuaranteedUpdate implements storage.Interface; the suggestion is not used, and
// neither is a time to live.
func (s *Storage) GuaranteedUpdate( //nolint:revive // upstream's signature
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object,
) error {
	p, err := placeOf(key)
	if err != nil {
		return err
	}
	for {
		found, err := s.find(ctx, key, p, destination)
		if err != nil {
			return err
		}
		if found.revision == 0 && !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, found.at)
		}
		if err := preconditions.Check(key, destination); err != nil {
			return err
		}
		updated, _, err := tryUpdate(destination.DeepCopyObject(), storage.ResponseMeta{ResourceVersion: uint64(found.revision)})
		if err != nil {
			return err
		}
		plain, stored, err := s.codec.encode(ctx, p, updated)
		if err != nil {
			return err
		}
		if found.revision != 0 && !found.stale && bytes.Equal(stored, found.value) {
			return s.show(plain, found.revision, destination)
		}
		revision, err := s.commit(ctx, store.Txn{Key: s.Server().storeKey(p), Value: stored, ExpectedModRevision: found.revision})
		if conflicts(err) {
			continue
		}
		if err != nil {
			return err
		}
		return s.show(plain, revision, destination)
	}
}

// found is the stored state of one key.
type found struct {
	value    []byte
	revision int64 // of the value; 0 when there is none
	at       int64 // the revision at which it was looked for
	stale    bool
}

// find reads one key into out, which is made empty when there is nothing.
func (s *Storage) find(ctx context.Context, key string, p place, out runtime.Object) (found, error) {
	server := s.Server()
	page, err := server.store.Read(ctx, store.Query{Start: server.storeKey(p)})
	if err != nil {
		return found{}, fmt.Errorf("read %s: %w", key, err)
	}
	if err := runtime.SetZeroValue(out); err != nil {
		return found{}, fmt.Errorf("read %s: %w", key, err)
	}
	f := found{at: page.Revision}
	if len(page.Records) == 0 {
		return f, nil
	}
	f.value, f.revision = page.Records[0].Value, page.Records[0].ModRevision
	if f.stale, err = s.codec.decode(ctx, key, f.value, out); err != nil {
		return found{}, storage.NewInternalError(err)
	}
	return f, s.codec.versioner.UpdateObject(out, uint64(f.revision))
}

// commit writes, and waits until every reader sees it.
func (s *Storage) commit(ctx context.Context, t store.Txn) (int64, error) {
	server := s.Server()
	done, err := server.store.Commit(ctx, t)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", t.Key, err)
	}
	return done.Revision, server.visible(ctx, done.Revision)
}

func conflicts(err error) bool {
	_, is := errors.AsType[*store.ConflictError](err)
	return is
}

// show decodes what was written into out, if that is wanted.
func (s *Storage) show(plain []byte, revision int64, out runtime.Object) error {
	if out == nil {
		return nil
	}
	if err := runtime.SetZeroValue(out); err != nil {
		return fmt.Errorf("show an object: %w", err)
	}
	if err := s.codec.read(plain, out); err != nil {
		return err
	}
	return s.codec.versioner.UpdateObject(out, uint64(revision))
}
