package persist_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/persist"
)

// bigFile holds n objects in several frames.
func bigFile(t testing.TB, disk persist.Disk, n int) *persist.File {
	t.Helper()
	f := open(t, disk)
	b, err := f.Rewrite()
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	for i := range n {
		k := handle.Key{Namespace: "ns", Name: fmt.Sprint("o", i)}
		raw := fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"o%d","annotations":{"text":"%01000d"}},"value":%d}`, i, i,
			i)
		if err := b.Put(k, raw); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	if err := b.Commit(stateOf(1, n)); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return f
}

func TestLoadingEndsWithItsContext(t *testing.T) {
	f := bigFile(t, newMemory(), 4000)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	c := codec()
	c.Decode = func(raw []byte) (*thing, error) {
		cancel(why)
		return decodeThing(raw)
	}
	if _, err := persist.Load(ctx, f, c); !errors.Is(err, why) {
		t.Errorf("loading ended with %v", err)
	}
}

func TestADecoderThatKeepsItsInputGetsItsOwnBuffer(t *testing.T) {
	f := bigFile(t, newMemory(), 3000)
	type held struct{ raw, copied []byte }
	var all []held
	c := codec()
	c.Lends = false
	c.Decode = func(raw []byte) (*thing, error) {
		all = append(all, held{raw, bytes.Clone(raw)}) // a race if it is called by several
		return decodeThing(raw)
	}
	if _, err := persist.Load(t.Context(), f, c); err != nil {
		t.Fatalf("load the snapshot file: %v", err)
	}
	if len(all) != 3000 {
		t.Errorf("%d objects were decoded", len(all))
	}
	for _, h := range all {
		if !bytes.Equal(h.raw, h.copied) {
			t.Fatal("what was decoded was overwritten")
		}
	}
}

func TestAnUndecodableObjectEndsLoading(t *testing.T) {
	f := bigFile(t, newMemory(), 3000)
	for name, decode := range map[string]func(raw []byte) (*thing, error){
		"an error": func(raw []byte) (*thing, error) {
			o, err := decodeThing(raw)
			if o.Value == 2000 {
				err = errors.New("no")
			}
			return o, err
		},
		"another object": func(raw []byte) (*thing, error) {
			o, err := decodeThing(raw)
			if o.Value == 2000 {
				o.Name = "x"
			}
			return o, err
		},
		"nothing": func([]byte) (*thing, error) { return nil, nil },
	} {
		if _, err := persist.Load(t.Context(), f, persist.Codec[*thing]{Decode: decode, Lends: true}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestAReadErrorEndsLoading(t *testing.T) {
	disk := newMemory()
	f := bigFile(t, disk, 3000)
	disk.broken["read"] = true
	if _, err := persist.Load(t.Context(), f, codec()); !errors.Is(err, persist.ErrDamaged) {
		t.Errorf("loading gives %v", err)
	}
	g := open(t, disk.clone())
	if !g.Holds() {
		t.Error("the next program does not find it")
	}
}

func TestAFileWithAMissingObjectIsDamaged(t *testing.T) {
	disk := newMemory()
	f := open(t, disk)
	b, err := f.Rewrite()
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	if err := errors.Join(add(b, map[string]int{"a": 1}), b.Commit(stateOf(1, 2))); err != nil {
		t.Fatalf("add and commit: %v", err)
	}
	if _, err := persist.Load(t.Context(), f, codec()); !errors.Is(err, persist.ErrDamaged) {
		t.Errorf("loading gives %v", err)
	}
}

func TestPutRejectsEmptyAndHugeObjects(t *testing.T) {
	f := open(t, newMemory())
	b, err := f.Rewrite()
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	defer b.Abort()
	k := handle.Key{Namespace: "ns", Name: "a"}
	if b.Put(k, nil) == nil || b.Put(k, make([]byte, 64<<20)) == nil {
		t.Error("an object without text, or with 64 MiB of it, is taken")
	}
}
