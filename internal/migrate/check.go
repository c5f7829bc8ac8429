package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// problems are those of all objects that cannot be moved.
type problems []string

func (p *problems) add(o *object) { *p = append(*p, fmt.Sprintf("%s: %v", o.key, o.err)) }

func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	return &UnmovableError{Problems: *p}
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
	if err != nil || len(value) <= mostCertain {
		return err
	}
	at, err := m.plain.Key(o.key)
	if err != nil {
		return err
	}
	return m.probe(ctx, at, value)
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
	value, err := m.plain.Encode(o.key, o.value)
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

// probe asks etcd whether it takes a request of this size, without writing anything.
func (m *mover) probe(ctx context.Context, at string, value []byte) error {
	_, err := m.client.Txn(ctx).If(clientv3.Compare(clientv3.Version(at), "<", 0)).
		Then(clientv3.OpPut(at, string(value))).Commit()
	if errors.Is(err, rpctypes.ErrRequestTooLarge) {
		return fmt.Errorf("its %d bytes are too large for etcd: raise its --max-request-bytes", len(value))
	}
	return err
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
