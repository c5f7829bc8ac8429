package stored

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// entry returns an update at rv of an object with so many bytes of content.
func entry(t *testing.T, rv kube.ResourceVersion, size int) *watchcache.Entry {
	t.Helper()
	o, err := wire.NewObject(fmt.Appendf(nil, `{"metadata":{"name":"a"},"data":%q}`, strings.Repeat("x", size)), rv, nil)
	if err != nil {
		t.Fatalf("make an object: %v", err)
	}
	e := watchcache.NewEntry(rv, o, nil)
	e.Replaces = true
	return e
}

// of is the change at a revision of the object of entry.
func of(revision int64) written { return written{revision, wire.Key{Name: "a"}} }

func newDecoded() *decoded {
	var none store.Store
	return &NewSource(none).decoded
}

func TestDecodedEntriesAreKeptForTheirFieldsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoded()
		fields, others := &[]wire.FieldPath{}, &[]wire.FieldPath{}
		first := entry(t, 1, 10)
		d.put([]*watchcache.Entry{first}, fields)
		if d.get(of(1), fields) != first || d.object(of(1), fields) != first.Object {
			t.Error("an entry is not found")
		}
		if d.get(of(1), others) != nil || d.get(of(2), fields) != nil || d.object(of(1), others) != nil {
			t.Error("an entry is found that was not put")
		}
		with := watchcache.NewEntry(1, first.Object, first.Object.WithResourceVersion(0))
		deleted := watchcache.NewDeletion(2, first.Object)
		d.put([]*watchcache.Entry{with, deleted}, fields)
		if d.get(of(1), fields) != with || d.get(of(2), fields) != deleted || d.object(of(2), fields) != nil {
			t.Error("an entry is not replaced, or a deletion has an object")
		}
	})
}

func TestDecodedEntriesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDecoded()
		fields := &[]wire.FieldPath{}
		const size = 100 << 10
		for rv := kube.ResourceVersion(1); rv <= 400; rv++ {
			d.put([]*watchcache.Entry{entry(t, rv, size)}, fields)
			d.put([]*watchcache.Entry{entry(t, rv, size)}, fields) // is no second one
		}
		held := 0
		for rv := range int64(401) {
			if d.get(of(rv), fields) != nil {
				held++
			} else if rv > 300 {
				t.Errorf("the entry of %d is gone", rv)
			}
		}
		if most := decodedBytes / size; held > most || held < most-10 || held != len(d.order) {
			t.Errorf("%d entries are held, %d in order; %d have room", held, len(d.order), most)
		}
		<-time.After(keepDecoded / 2)
		d.put(nil, fields) // a read that finds everything
		<-time.After(keepDecoded - 1)
		if d.get(of(400), fields) == nil {
			t.Error("what was used is gone")
		}
		<-time.After(keepDecoded)
		synctest.Wait()
		if d.get(of(400), fields) != nil || len(d.order) != 0 || d.bytes != 0 || d.ticking {
			t.Errorf("what was not used is held: %d entries, %d bytes", len(d.order), d.bytes)
		}
	})
}

func TestReadersAtOnePlaceWaitForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecoded()
		here := place{fields: &[]wire.FieldPath{}, after: 7}
		finish, err := d.join(t.Context(), here)
		if err != nil {
			t.Fatalf("join the queue: %v", err)
		}
		elsewhere, err := d.join(t.Context(), place{fields: here.fields, after: 8})
		if err != nil {
			t.Fatalf("join the queue: %v", err)
		}
		elsewhere()
		cause := errors.New("left")
		leaving, leave := context.WithCancelCause(t.Context())
		var joined atomic.Int64
		for _, ctx := range []context.Context{t.Context(), leaving, t.Context()} {
			go func() { // ends with finish
				done, err := d.join(ctx, here)
				if ctx == leaving {
					if !errors.Is(err, cause) {
						t.Errorf("a reader that leaves gets %v", err)
					}
					return
				}
				if err != nil {
					t.Errorf("join the queue: %v", err)
					return
				}
				joined.Add(1)
				done()
			}()
		}
		synctest.Wait()
		leave(cause)
		synctest.Wait()
		if joined.Load() != 0 {
			t.Errorf("%d readers did not wait", joined.Load())
		}
		finish()
		synctest.Wait()
		if joined.Load() != 2 || len(d.reading) != 0 {
			t.Errorf("%d readers went on, %d places are read", joined.Load(), len(d.reading))
		}
	})
}

func TestAKeyInTheStoreNamesOneObject(t *testing.T) {
	var none store.Store
	r := NewSource(none).Resource(kinds.GroupResource{Group: "apps", Resource: "deployments"}, nil)
	keys := []wire.Key{
		{},
		{Name: "a"},
		{Namespace: "a"},
		{Namespace: "a", Name: "b"},
		{Namespace: "a", Name: "bb"},
		{Namespace: "aa", Name: "b"},
		{Namespace: "b", Name: "a"},
		{Name: "ab"},
	}
	for _, key := range keys {
		for _, other := range keys {
			if got, want := r.names(r.Key(other), key), key == other; got != want {
				t.Errorf("%q names %+v: %v, want %v", r.Key(other), key, got, want)
			}
		}
		if stored := "configmaps/" + key.String(); r.names(stored, key) {
			t.Errorf("%q names %+v of another resource", stored, key)
		}
	}
}
