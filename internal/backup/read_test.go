package backup_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// small returns a backup of a few objects, with history.
func small(t testing.TB) []byte {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(t.Context()) }() // ends with Close
	defer func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Errorf("close the log: %v", err)
		}
	}()
	expected := map[string]int64{}
	for _, w := range []store.Txn{
		{Key: "pods/a/1", Value: []byte("one")},
		{Key: "pods/a/2", Value: []byte("two")},
		{Key: "pods/a/1", Value: []byte("three")},
		{Key: "secrets/a/1", Value: []byte("k8s:enc:secretbox:v1:key1:xyz")},
		{Key: "pods/a/2", Delete: true},
	} {
		w.ExpectedModRevision = expected[w.Key]
		done, err := log.Commit(t.Context(), w)
		if err != nil {
			t.Fatalf("write %s: %v", w.Key, err)
		}
		expected[w.Key] = done.Revision
	}
	var b bytes.Buffer
	if _, err := backup.Take(t.Context(), backup.Log(log), backup.Options{History: true}, &b); err != nil {
		t.Fatalf("take a backup: %v", err)
	}
	return b.Bytes()
}

func TestEachChangedBitOfABackupIsFound(t *testing.T) {
	file := small(t)
	_, whole, err := readAll(bytes.NewReader(file))
	if err != nil || len(whole) != 4 {
		t.Fatalf("the whole file: %d records, %v", len(whole), err)
	}
	for at := range file {
		for bit := range 8 {
			damaged := bytes.Clone(file)
			damaged[at] ^= 1 << bit
			_, records, err := readAll(bytes.NewReader(damaged))
			_, isNewer := errors.AsType[*backup.NewerError](err)
			if !isDamaged(err) && !isNewer || !reflect.DeepEqual(records, whole[:len(records):len(records)]) && records != nil {
				t.Fatalf("bit %d of byte %d of %d is changed: %v, %+v", bit, at, len(file), err, records)
			}
		}
	}
}

func TestAnIncompleteBackupIsFound(t *testing.T) {
	file := small(t)
	for size := range file {
		if _, _, err := readAll(bytes.NewReader(file[:size])); !isDamaged(err) {
			t.Fatalf("%d of %d bytes: %v", size, len(file), err)
		}
	}
	if _, _, err := readAll(bytes.NewReader(append(bytes.Clone(file), 0))); !isDamaged(err) {
		t.Errorf("a byte behind the end: %v", err)
	}
	broken := errors.New("the disk is broken")
	_, _, err := readAll(io.MultiReader(bytes.NewReader(file[:len(file)-10]), errorReader{broken}))
	if !errors.Is(err, broken) || isDamaged(err) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func isDamaged(err error) bool {
	_, is := errors.AsType[*backup.DamagedError](err)
	return is
}

type errorReader struct{ err error }

func (e errorReader) Read([]byte) (int, error) { return 0, e.err }

func TestABackupOfALaterFormatIsRefused(t *testing.T) {
	file := small(t)
	binary.LittleEndian.PutUint32(file[8:], 2)
	_, _, err := readAll(bytes.NewReader(file))
	if e, is := errors.AsType[*backup.NewerError](err); !is || e.Version != 2 {
		t.Errorf("format 2: %v", err)
	}
}

// FuzzReader reads files that nobody has written.
func FuzzReader(f *testing.F) {
	file := small(f)
	f.Add(file)
	f.Add(file[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, err := readAll(bytes.NewReader(b))
		_, isNewer := errors.AsType[*backup.NewerError](err)
		if err == nil && !bytes.HasPrefix(b, []byte("gaplbkup")) || err != nil && !isNewer && !isDamaged(err) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzBlocks reads files whose checksums are right, with records that nobody has written.
func FuzzBlocks(f *testing.F) {
	f.Add(byte('l'), uint32(1), []byte("\x00\x05\x05\x00\x03a/b\x01x"), byte('s'), []byte(`{"objects":1,"resources":{"a":1}}`))
	f.Add(byte('e'), uint32(1), []byte("\x03\x05\x05\x00\x06\x00\x03a/b\x01x"), byte('s'), []byte(`{"versions":1}`))
	f.Fuzz(func(t *testing.T, kind1 byte, count1 uint32, payload1 []byte, kind2 byte, payload2 []byte) {
		file := backup.Sealed(
			backup.Block{Kind: 'h', Count: 1, Payload: []byte(`{"resourceVersion":"10","history":true,"since":"0"}`)},
			backup.Block{Kind: kind1, Count: count1, Payload: payload1}, backup.Block{Kind: kind2, Count: 1, Payload: payload2},
		)
		h, records, err := readAll(bytes.NewReader(file))
		if err != nil && !isDamaged(err) {
			t.Errorf("%v", err)
		}
		for _, r := range records {
			if r.Key == "" || r.Create < 1 || r.Revision < r.Create || r.Revision > h.Revision || r.Until > h.Revision {
				t.Errorf("a record that no backup has: %+v", r)
			}
		}
	})
}
