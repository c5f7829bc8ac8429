package persist_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/persist"
)

var seed = flag.Uint64("seed", 1, "of the random tests")

// thing is a small object; its value is in a label, and its position its version.
type thing struct {
	metav1.ObjectMeta `json:"metadata"`

	Value int `json:"value"`
}

func newThing(name string, value int) *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(value + 1),
	}, Value: value}
}

func identity() persist.Identity {
	return persist.Identity{Name: "ns/Things", Source: "things of a server", Shape: "a name and a value"}
}

func open(t testing.TB, disk persist.Disk) *persist.File {
	t.Helper()
	f, err := persist.Open(disk, identity())
	if err != nil {
		t.Fatalf("open the snapshot file: %v", err)
	}
	return f
}

// add puts what is there and not negative, and deletes what is.
func add(b *persist.Batch, values map[string]int) error {
	for name, value := range values {
		k := handle.Key{Namespace: "ns", Name: name}
		var err error
		if value < 0 {
			err = b.Delete(k)
		} else {
			err = b.Put(k,
				fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":%q,"resourceVersion":"%d"},"value":%d}`, name, value+1,
					value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stateOf is what belongs to a state of n objects; its position says which it is.
func stateOf(position, n int) persist.State {
	return persist.State{
		Positions: map[string]string{"": strconv.Itoa(position), "kube-system": strconv.Itoa(position * 2)},
		At:        time.UnixMilli(int64(position)), Objects: n, Unread: position % 3,
	}
}

// commit makes the values the state of the file.
func commit(t testing.TB, f *persist.File, values map[string]int) {
	t.Helper()
	b, err := f.Rewrite()
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	if err := errors.Join(add(b, values), b.Commit(stateOf(1, len(values)))); err != nil {
		t.Fatalf("add and commit: %v", err)
	}
}

func codec() persist.Codec[*thing] {
	return persist.Codec[*thing]{
		Encode: func(dst []byte, o *thing) ([]byte, error) { return persist.JSON(dst, o) },
		Decode: decodeThing, Lends: true,
	}
}

// load returns what is in the file; nil: nothing.
func load(t testing.TB, f *persist.File) map[string]int {
	t.Helper()
	if !f.Holds() {
		return nil
	}
	objects, err := persist.Load(t.Context(), f, codec())
	if err != nil {
		t.Fatalf("load the snapshot file: %v", err)
	}
	values := make(map[string]int, len(objects))
	for k, o := range objects {
		values[k.Name] = o.Value
	}
	return values
}

func TestCommittedStatesAreLoaded(t *testing.T) {
	for name, disk := range map[string]persist.Disk{"directory": persist.Dir(t.TempDir()), "memory": newMemory()} {
		t.Run(name, func(t *testing.T) {
			f := open(t, disk)
			if f.Holds() || f.Damage() != nil {
				t.Errorf("a new file holds something: %v", f.Damage())
			}
			commit(t, f, map[string]int{"a": 1, "b": 2})
			b, err := f.Append()
			if err != nil {
				t.Fatalf("append: %v", err)
			}
			want := stateOf(7, 2)
			if err := errors.Join(add(b, map[string]int{"a": -1, "c": 3}), b.Commit(want)); err != nil {
				t.Fatalf("add and commit: %v", err)
			}
			given, err := f.Append()
			if err != nil {
				t.Fatalf("append: %v", err)
			}
			if err := add(given, map[string]int{"d": 4}); err != nil {
				t.Fatalf("add: %v", err)
			}
			given.Abort()
			if err := errors.Join(add(given, nil), given.Commit(want)); err == nil {
				t.Error("a batch that was given up can be committed")
			}
			if err := f.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			f = open(t, disk)
			if diff := cmp.Diff(map[string]int{"b": 2, "c": 3}, load(t, f)); diff != "" || f.Damage() != nil {
				t.Error(diff, f.Damage())
			}
			if diff := cmp.Diff(want, f.State()); diff != "" {
				t.Error(diff)
			}
			if err := f.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
		})
	}
}

func TestAFileOfOtherObjectsIsKeptUntilItIsReplaced(t *testing.T) {
	disk := newMemory()
	f := open(t, disk)
	commit(t, f, map[string]int{"a": 1})
	if err := f.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	name, before := disk.only(t)
	other := identity()
	other.Shape = "another"
	f, err := persist.Open(disk, other)
	if err != nil {
		t.Fatalf("open the snapshot file: %v", err)
	}
	if f.Holds() || !errors.Is(f.Damage(), persist.ErrOther) || !strings.Contains(f.Damage().Error(), "another") {
		t.Errorf("another shape: %v, %v", f.Holds(), f.Damage())
	}
	if _, err := f.Append(); err == nil {
		t.Error("what is not there can be changed")
	}
	b, err := f.Rewrite()
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	if err := add(b, map[string]int{"b": 1}); err != nil {
		t.Fatalf("add: %v", err)
	}
	if diff := cmp.Diff(before, disk.files[name]); diff != "" {
		t.Error("the file changed before there was a new state")
	}
	if err := errors.Join(b.Commit(stateOf(1, 1)), f.Close()); err != nil {
		t.Fatalf("commit and close: %v", err)
	}
	f = open(t, disk)
	if f.Holds() || !errors.Is(f.Damage(), persist.ErrOther) {
		t.Errorf("the new file is taken for the old one: %v", f.Damage())
	}
	if len(disk.files) != 1 {
		t.Errorf("%d files", len(disk.files))
	}
}

// history writes several states into a disk and returns them by their position: what
// was there when each was committed, and where each ends.
func history(t *testing.T, disk *memory) (states map[string]map[string]int, ends []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(*seed, 7))
	f := open(t, disk)
	now := map[string]int{"a": 1, "b": 2}
	commit(t, f, now)
	states = map[string]map[string]int{"1": maps.Clone(now)}
	ends = append(ends, int(f.Size()))
	for position := 2; position < 8; position++ {
		b, err := f.Append()
		if err != nil {
			t.Fatalf("append: %v", err)
		}
		for range r.IntN(20) {
			name := fmt.Sprint("o", r.IntN(8))
			value := r.IntN(100) - 20
			if value < 0 {
				delete(now, name)
			} else {
				now[name] = value
			}
			if err := add(b, map[string]int{name: value}); err != nil {
				t.Fatalf("add: %v", err)
			}
		}
		if err := b.Commit(stateOf(position, len(now))); err != nil {
			t.Fatalf("commit: %v", err)
		}
		states[strconv.Itoa(position)] = maps.Clone(now)
		ends = append(ends, int(f.Size()))
	}
	if err := f.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return states, ends
}

// found opens a file of these bytes, checks that what is loaded is one of the states,
// whole, with its position, and that the file can be gone on with; and returns the
// position, "" for none.
func found(t *testing.T, name string, b []byte, states map[string]map[string]int) string {
	t.Helper()
	disk := newMemory()
	disk.files[name] = b
	f := open(t, disk)
	position := f.State().Positions[""]
	got := load(t, f)
	if diff := cmp.Diff(states[position], got); diff != "" {
		t.Fatalf("the state at %q of %d bytes is another:\n%s", position, len(b), diff)
	}
	begin, want := f.Append, maps.Clone(got)
	if want == nil {
		begin, want = f.Rewrite, map[string]int{}
	}
	batch, err := begin()
	if err != nil {
		t.Fatalf("begin a batch: %v", err)
	}
	want["new"] = 5
	if err := errors.Join(add(batch, map[string]int{"new": 5}), batch.Commit(stateOf(9, len(want))), f.Close()); err != nil {
		t.Fatalf("commit the changes and close the file: %v", err)
	}
	f = open(t, disk)
	if diff := cmp.Diff(want, load(t, f)); diff != "" || f.Damage() != nil {
		t.Fatalf("gone on with from %q: %v\n%s", position, f.Damage(), diff)
	}
	return position
}

func TestAFileCutAnywhereHoldsTheLastWholeState(t *testing.T) {
	disk := newMemory()
	states, ends := history(t, disk)
	name, b := disk.only(t)
	for cut := 0; cut <= len(b); cut += everyNth() {
		want := ""
		for n, end := range ends {
			if end <= cut {
				want = strconv.Itoa(n + 1)
			}
		}
		if got := found(t, name, append([]byte(nil), b[:cut]...), states); got != want {
			t.Fatalf("cut to %d of %d bytes it holds the state at %q, want %q", cut, len(b), got, want)
		}
	}
}

func TestAFlippedBitLosesOnlyTheCommitsAfterIt(t *testing.T) {
	disk := newMemory()
	states, ends := history(t, disk)
	name, b := disk.only(t)
	for i := 0; i < len(b); i += everyNth() {
		bad := append([]byte(nil), b...)
		bad[i] ^= 1 << (i % 8)
		want := ""
		for n, end := range ends {
			if end <= i {
				want = strconv.Itoa(n + 1)
			}
		}
		if got := found(t, name, bad, states); got != want {
			t.Fatalf("with byte %d of %d flipped it holds the state at %q, want %q", i, len(b), got, want)
		}
	}
}

// TestALostSectorLosesOnlyTheCommitsAfterIt: what was not synced can reach the disk in
// any order, or as zeros.
func TestALostSectorLosesOnlyTheCommitsAfterIt(t *testing.T) {
	const sector = 64 // smaller than real ones, for more cases
	disk := newMemory()
	states, ends := history(t, disk)
	name, b := disk.only(t)
	if got := len(disk.synced[name]); got != ends[0] {
		t.Fatalf("%d bytes were synced, want the first state of %d", got, ends[0])
	}
	r := rand.New(rand.NewPCG(*seed, 8))
	for range 300 / everyNth() {
		bad := append([]byte(nil), b...)
		for at := ends[0]; at < len(bad); at += sector {
			if r.IntN(8) == 0 {
				clear(bad[at:min(at+sector, len(bad))])
			}
		}
		if found(t, name, bad, states) == "" {
			t.Fatal("what was synced is lost")
		}
	}
}

func TestAFileOfSupersededRecordsIsRewritten(t *testing.T) {
	disk := newMemory()
	f := open(t, disk)
	big := strings.Repeat("x", 100<<10)
	r := rand.New(rand.NewPCG(*seed, 9))
	write := func(b *persist.Batch, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("begin a batch: %v", err)
		}
		noise := []byte(big)
		for i := range noise {
			noise[i] = 'a' + byte(r.IntN(26))
		}
		text := fmt.Appendf(nil, `{"metadata":{"namespace":"ns","name":"a"},"text":%q}`, noise)
		if err := errors.Join(b.Put(handle.Key{Namespace: "ns", Name: "a"}, text), b.Commit(stateOf(1, 1))); err != nil {
			t.Fatalf("put and commit: %v", err)
		}
	}
	write(f.Rewrite())
	least, writes := f.Size(), 0
	for ; !f.Stale(); writes++ {
		write(f.Append())
	}
	if writes < 10 || f.Size() < 4<<20 {
		t.Errorf("it is stale after %d writes and %d bytes", writes, f.Size())
	}
	write(f.Rewrite())
	if f.Stale() || f.Size() > 2*least {
		t.Errorf("rewritten it has %d bytes, at first %d", f.Size(), least)
	}
}

func decodeThing(raw []byte) (*thing, error) {
	o := &thing{}
	return o, json.Unmarshal(raw, o)
}

// everyNth returns the step of exhaustive and random tests: 1, or 7 with -short.
func everyNth() int {
	if testing.Short() {
		return 7
	}
	return 1
}
