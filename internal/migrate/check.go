package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// mostNamed is how many keys are named at most: there may be as many as there are objects.
const mostNamed = 100

// named are the first of some keys, and how many there are.
type named struct {
	first []string
	count int64
}

func (n *named) add(text string) {
	if n.count++; len(n.first) < mostNamed {
		n.first = append(n.first, text)
	}
}

// problems are those of all objects that cannot be moved.
type problems struct{ named }

func (p *problems) add(o *object) { p.named.add(fmt.Sprintf("%s: %v", o.key, o.err)) }

// unmovable is the error, if there are any. begun is how many objects an earlier attempt has written.
func (p *problems) unmovable(begun int64) error {
	if p.count == 0 {
		return nil
	}
	return &UnmovableError{Problems: p.first, Count: p.count, Begun: begun}
}

// failure is an error that says nothing about an object: etcd did not answer.
type failure struct{ error }

// Unwrap returns etcd's.
func (f failure) Unwrap() error { return f.error }

// failed returns an error of the run, where reading objects has met one: etcd or a key management service did not
// answer.
func failed(page []object) error {
	for i := range page {
		err := page[i].err
		if err == nil {
			continue
		}
		if of, is := errors.AsType[failure](err); is {
			return of.error
		}
		_, unavailable := errors.AsType[*store.UnavailableError](err)
		unreadable, is := errors.AsType[*store.UnreadableError](err)
		if unavailable || is && unreadable.Temporary {
			return err
		}
	}
	return nil
}

// define reads the definitions, so that objects are compared with them. It returns those that cannot be used;
// those that cannot be read come with all other objects.
func (m *mover) define(ctx context.Context, from pages) (bad problems, err error) {
	err = each(ctx, from, func(o *object) error {
		if o.err != nil {
			return nil //nolint:nilerr // it is named with all others that cannot be read
		}
		catalog := m.live.Load()
		_, name, _ := strings.Cut(o.key, "/")
		if catalog.BuiltIn(kinds.DefinedBy(name)) {
			return nil // it has no effect
		}
		resources, wrong := custom.Resources(o.value)
		if wrong != nil {
			bad.add(&object{key: o.key, err: wrong})
			return nil //nolint:nilerr // bad has it
		}
		m.live.Store(catalog.With(resources...))
		return nil
	})
	return bad, err
}

// mostCertain is the size of a value below which etcd takes it, whatever its --max-request-bytes is in practice.
const mostCertain = 1 << 20

// storable returns why etcd cannot have an object of the directory as it is. stored is what the directory has.
func (m *mover) storable(ctx context.Context, o *object, stored []byte) error {
	value, err := m.kept(o, stored)
	if err != nil || len(value) <= mostCertain-encryptedBytes {
		return err
	}
	at, err := m.layout.Key(o.key)
	if err != nil {
		return err
	}
	if value, err = m.layout.Encode(o.key, o.value, nil); err != nil {
		return err
	}
	return m.probe(ctx, sent{o, at, string(value)})
}

// kept returns the form of an object in etcd, or why that would be another object.
func (m *mover) kept(o *object, stored []byte) ([]byte, error) {
	at, err := m.plain.Key(o.key)
	if err != nil {
		return nil, err
	}
	if known, is := m.plain.StoreKey(at); !is || known != o.key {
		return nil, errors.New("no object of a kind that gapless serves has this key")
	}
	value, err := m.plain.Encode(o.key, o.value, nil)
	if err != nil {
		return nil, err
	}
	back, err := m.plain.Decode(o.key, value)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(back, o.value) {
		return nil, fmt.Errorf("etcd would not have it as it is: %s differs", firstDifference(o.value, back))
	}
	if !bytes.Equal(stored, o.value) { // it has no defaults, or what servers do not read
		if path := missing(stored, o.value); path != "" {
			return nil, fmt.Errorf("servers of this version do not know %s", path)
		}
	}
	return value, nil
}

// probe asks etcd whether it takes a transaction like the one that will create an object, without writing anything.
func (m *mover) probe(ctx context.Context, s sent) error {
	txn := transaction{conditions: []clientv3.Cmp{members.Never(m.own)}}
	var lease clientv3.LeaseID
	if _, does := m.expires(s.object); does {
		lease = math.MaxInt64 // the longest
	}
	txn.create(s, lease)
	limited, cancel := context.WithTimeoutCause(ctx, attemptFor, errNoContact)
	defer cancel()
	switch _, err := txn.commit(limited, m.client); {
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("its %d bytes are too large for etcd: raise its --max-request-bytes", len(s.value))
	case err != nil:
		return failure{fmt.Errorf("ask etcd whether it takes %s: %w", s.at, err)}
	}
	return nil
}

// fits returns why a directory cannot have an object.
func fits(o *object) error {
	switch {
	case o.err != nil:
		return o.err
	case !format.ValidKey(o.key) || len(o.key) > format.MaxKeyBytes:
		return fmt.Errorf("its key has %d bytes, of %d", len(o.key), format.MaxKeyBytes)
	case len(o.value) > format.MaxValueBytes-encryptedBytes:
		return fmt.Errorf("it has %d bytes, of %d", len(o.value), format.MaxValueBytes-encryptedBytes)
	}
	return nil
}

// encryptedBytes is more than what encryption adds to a value.
const encryptedBytes = 4 << 10

// missing returns the path of the first member of an object that another form of it does not have, or has with
// another value; "": it has all. A member that is null is none.
func missing(from, in []byte) string {
	a, err := jsontree.Decode(from)
	if err != nil {
		return err.Error()
	}
	b, err := jsontree.Decode(in)
	if err != nil {
		return err.Error()
	}
	return lost(a, b, "")
}

// firstDifference is missing, in both directions.
func firstDifference(a, b []byte) string {
	if path := missing(a, b); path != "" {
		return path
	}
	if path := missing(b, a); path != "" {
		return path
	}
	return "the order of its members"
}

func lost(from, in any, path string) string {
	switch from := from.(type) {
	case nil:
		return ""
	case map[string]any:
		other, is := in.(map[string]any)
		if !is {
			return path
		}
		for name, value := range from {
			if at := lost(value, other[name], path+"."+name); at != "" {
				return at
			}
		}
		return ""
	case []any:
		other, is := in.([]any)
		if !is || len(from) != len(other) {
			return path
		}
		for i := range from {
			if at := lost(from[i], other[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
		return ""
	}
	if from != in {
		return path
	}
	return ""
}
