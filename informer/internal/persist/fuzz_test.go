package persist_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gapless-io/gapless/informer/internal/persist"
)

// FuzzOpen takes any bytes for a file: it is opened, at worst as one that holds
// nothing, and can be written anew.
func FuzzOpen(f *testing.F) {
	disk := newMemory()
	file := open(f, disk)
	commit(f, file, map[string]int{"a": 1, "b": 2})
	b, err := file.Append()
	if err != nil {
		f.Fatalf("append to the file: %v", err)
	}
	if err := errors.Join(add(b, map[string]int{"a": -1}), b.Commit(stateOf(2, 1)), file.Close()); err != nil {
		f.Fatalf("commit the changes and close the file: %v", err)
	}
	name, whole := disk.only(f)
	f.Add(whole)
	f.Add(whole[:len(whole)-10])
	f.Add(bytes.Repeat([]byte{0}, 100))
	f.Add([]byte("gapwarm1\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		disk := newMemory()
		disk.files[name] = b
		file := open(t, disk)
		if file.Holds() {
			if file.Size() > int64(len(b)) {
				t.Fatalf("%d bytes of %d count", file.Size(), len(b))
			}
			_, _ = persist.Load(t.Context(), file, codec()) // it may be nonsense
		} else if len(b) > 0 && file.Damage() == nil {
			t.Fatal("nothing is held, and nobody says why")
		}
		commit(t, file, map[string]int{"x": 1})
		if err := file.Close(); err != nil {
			t.Fatalf("close the file: %v", err)
		}
		if got := load(t, open(t, disk)); len(got) != 1 || got["x"] != 1 {
			t.Fatalf("written anew it holds %v", got)
		}
	})
}

// FuzzRecords takes any bytes for the payload of frames with the right checksums, as a
// mistake in another version of this package would write them.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("\x01\x02ns\x01a{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"}}"), uint32(1), false,
		persist.EncodeState(stateOf(1, 1)))
	f.Add([]byte("\x02\x02ns\x01a"), uint32(1), false, persist.EncodeState(stateOf(2, 0)))
	f.Add([]byte("\x28\xb5\x2f\xfd"), uint32(7), true, []byte{1, 2, 3, 0})
	f.Fuzz(func(t *testing.T, records []byte, count uint32, packed bool, state []byte) {
		disk := newMemory()
		file := open(t, disk)
		commit(t, file, nil)
		name, b := disk.only(t)
		disk.files[name] = persist.AppendFrames(b, file, persist.Payload{
			Records: records, Count: count, Packed: packed, State: state,
		})
		if err := file.Close(); err != nil {
			t.Fatalf("close the file: %v", err)
		}
		file = open(t, disk)
		if !file.Holds() {
			t.Fatal("what was there is lost")
		}
		objects, err := persist.Load(t.Context(), file, codec())
		if err == nil && len(objects) != file.State().Objects {
			t.Fatalf("%d objects, want %d", len(objects), file.State().Objects)
		}
	})
}
