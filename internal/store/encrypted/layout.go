package encrypted

import (
	"bytes"
	"context"
	"fmt"

	"github.com/gapless-io/gapless/internal/store"
)

// Plain is a layout of a store in etcd without encryption.
type Plain interface {
	Key(key string) (string, error)
	StoreKey(etcdKey string) (key string, known bool)
	Encode(key string, value []byte, before func() ([]byte, error)) ([]byte, error)
	AppendDecoded(b []byte, key string, stored []byte) ([]byte, error)
	// Stale reports whether a value would have another version if it were written now.
	Stale(key string, stored []byte) (bool, error)
}

// Layout is a layout of a store in etcd whose values are encrypted as upstream's are: what
// kube-apiserver writes with the same configuration it reads, and the reverse. The authenticated
// data of a value is its key in etcd, with the prefix (apiserver storage/etcd3 store.go).
type Layout struct {
	Plain
	*Keys
}

// OpenLayout loads the configuration. The caller closes the Layout.
func OpenLayout(ctx context.Context, below Plain, cfg Config) (*Layout, error) {
	keys, err := openKeys(ctx, cfg, func(key string) string {
		at, err := below.Key(key)
		if err != nil {
			return key // Encode and Decode have asked before
		}
		return at
	})
	if err != nil {
		return nil, err
	}
	return &Layout{Plain: below, Keys: keys}, nil
}

// Encode makes the value in etcd. A key management service that does not answer is
// *store.UnavailableError: the configuration bounds how long it is waited for.
func (l *Layout) Encode(key string, value []byte, before func() ([]byte, error)) ([]byte, error) {
	plain := before
	if before != nil {
		plain = func() ([]byte, error) {
			stored, err := before()
			if err != nil || stored == nil {
				return nil, err
			}
			stored, _, err = l.decrypted(l.ends, key, stored)
			return stored, err
		}
	}
	out, err := l.Plain.Encode(key, value, plain)
	if err != nil {
		return nil, err
	}
	t := l.current.Load().transformer(key)
	if t == nil {
		return out, nil
	}
	if out, err = t.encrypt(l.ends, key, out); err != nil {
		err = fmt.Errorf("encrypt %q: %w", key, err)
		if passing(err) {
			return nil, &store.UnavailableError{Cause: err}
		}
		return nil, err
	}
	return out, nil
}

// AppendDecoded is the reverse, and appends to b. A value that cannot be decrypted is *store.UnreadableError, without
// its revision.
func (l *Layout) AppendDecoded(b []byte, key string, stored []byte) ([]byte, error) {
	plain, _, err := l.decrypted(l.ends, key, stored)
	if err != nil {
		return nil, err
	}
	return l.Plain.AppendDecoded(b, key, plain)
}

// Decode is AppendDecoded to nothing.
func (l *Layout) Decode(key string, stored []byte) ([]byte, error) {
	return l.AppendDecoded(nil, key, stored)
}

// Stale reports whether a value in etcd would be of another version, or encrypted in another way, if it were
// written now.
func (l *Layout) Stale(ctx context.Context, key string, stored []byte) (bool, error) {
	plain, stale, err := l.decrypted(ctx, key, stored)
	if err != nil || stale {
		return stale, err
	}
	return l.Plain.Stale(key, plain)
}

// decrypted returns a value as the layout below has written it.
func (l *Layout) decrypted(ctx context.Context, key string, stored []byte) (plain []byte, stale bool, err error) {
	g := l.current.Load()
	if !bytes.HasPrefix(stored, []byte(prefix)) && g.transformer(key) == nil {
		return stored, false, nil
	}
	if plain, stale, err = g.decrypt(ctx, key, stored); err != nil {
		return nil, false, unreadable(store.Record{Key: key, Value: stored}, err)
	}
	return plain, stale, nil
}

// EncodeBeside encrypts a value that belongs to a resource and is no object of it, as upstream's: at is its key in etcd.
// Errors: those of Encode.
func (l *Layout) EncodeBeside(resource, at string, value []byte) ([]byte, error) {
	t := l.current.Load().transformer(resource)
	if t == nil {
		return value, nil
	}
	out, err := t.encrypt(l.ends, at, value)
	if err != nil {
		err = fmt.Errorf("encrypt %s: %w", at, err)
		if passing(err) {
			return nil, &store.UnavailableError{Cause: err}
		}
		return nil, err
	}
	return out, nil
}

// DecodeBeside is the reverse.
func (l *Layout) DecodeBeside(ctx context.Context, resource, at string, stored []byte) ([]byte, error) {
	t := l.current.Load().transformer(resource)
	if t == nil {
		if bytes.HasPrefix(stored, []byte(prefix)) {
			return nil, fmt.Errorf("decrypt %s: %w", at, errNoKeys)
		}
		return stored, nil
	}
	out, _, err := t.decrypt(ctx, at, stored)
	if err != nil {
		return nil, fmt.Errorf("decrypt %s: %w", at, err)
	}
	return out, nil
}
