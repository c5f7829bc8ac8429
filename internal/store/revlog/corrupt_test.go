package revlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

const sector = 512

// written returns a closed log of several segments with merged ones among them.
func written(tb testing.TB, random *rand.Rand) (*disktest.Disk, *life) {
	tb.Helper()
	fs := disktest.New(random)
	l := open(tb, small(fs))
	f := newLife(random)
	for range 250 {
		if err := f.write(tb.Context(), l); err != nil {
			tb.Fatalf("write: %v", err)
		}
	}
	if err := l.Close(); err != nil {
		tb.Fatalf("close: %v", err)
	}
	return fs, f
}

// damages is how files go bad. Each returns the damaged copy of b.
func damages() map[string]func(*rand.Rand, []byte) []byte {
	return map[string]func(*rand.Rand, []byte) []byte{
		"bit flip": func(random *rand.Rand, b []byte) []byte {
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			return b
		},
		"truncation": func(random *rand.Rand, b []byte) []byte { return b[:random.IntN(len(b))] },
		"zero page": func(random *rand.Rand, b []byte) []byte {
			from := random.IntN(len(b)) / sector * sector
			clear(b[from:min(len(b), from+sector<<random.IntN(4))])
			return b
		},
		"duplicated tail": func(random *rand.Rand, b []byte) []byte {
			return append(b, b[random.IntN(len(b)):]...)
		},
		"page of another place": func(random *rand.Rand, b []byte) []byte {
			from, to := random.IntN(len(b))/32*32, random.IntN(len(b))/32*32
			copy(b[to:], slices.Clone(b[from:min(len(b), from+sector)]))
			return b
		},
	}
}

// TestDamageIsRefusedOrHarmless damages one file at a time, of a log that was
// closed and of one that was not.
func TestDamageIsRefusedOrHarmless(t *testing.T) {
	random := seeded(t)
	fs, f := written(t, random)
	all := 0
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			refused := 0
			const rounds = 50
			for range rounds {
				bad := fs.Clone()
				names := bad.Names()
				file := names[random.IntN(len(names))]
				bad.SetBytes(file, damage(random, bad.Bytes(file)))
				l, stop, err := start(t, small(bad))
				if _, ok := errors.AsType[*store.CorruptError](err); ok {
					refused++
					continue
				}
				if err != nil {
					t.Fatalf("open gives %v, want CorruptError", err)
				}
				f.compare(t, l)
				if err := stop(); err != nil {
					t.Fatalf("stop: %v", err)
				}
			}
			t.Logf("%d of %d refused, the others lost nothing", refused, rounds)
			all += refused
		})
	}
	if all == 0 {
		t.Error("no damage was noticed")
	}
}

// segmentOf returns the name of the only segment of a log.
func segmentOf(t *testing.T, fs *disktest.Disk) string {
	t.Helper()
	var found string
	for _, name := range fs.Names() {
		if strings.HasPrefix(name, "seg-") {
			if found != "" {
				t.Fatal("there are several segments")
			}
			found = name
		}
	}
	return found
}

// TestFlippedBitIsNotTakenForATornWrite flips every bit of a log that was not
// closed, so that only the log itself tells where it ends.
func TestFlippedBitIsNotTakenForATornWrite(t *testing.T) {
	fs := disktest.New(seeded(t))
	l := open(t, small(fs))
	for _, key := range []string{"pods/a", "pods/b", "pods/c"} {
		commit(t, l, key, "some value")
	}
	for bit := range l.Stats().Bytes * 8 {
		bad := fs.Clone()
		data := bad.Bytes(segmentOf(t, bad))
		data[bit/8] ^= 1 << (bit % 8)
		bad.SetBytes(segmentOf(t, bad), data)
		if again, err := revlog.Open(t.Context(), small(bad)); err == nil {
			t.Fatalf("bit %d is flipped and the log opens at %+v, want CorruptError", bit, again.Stats())
		} else if _, ok := errors.AsType[*store.CorruptError](err); !ok {
			t.Fatalf("bit %d: %v, want CorruptError", bit, err)
		}
	}
}

// TestTornWriteIsCutOff leaves the end of a write of which the beginning was
// lost, and writes less over it.
func TestTornWriteIsCutOff(t *testing.T) {
	fs := disktest.New(seeded(t))
	l := open(t, small(fs))
	commit(t, l, "pods/a", "1")
	end := l.Stats().Bytes
	torn := fs.Clone()
	data := torn.Bytes(segmentOf(t, torn))
	copy(data[end+32:], bytes.Repeat([]byte{0x5a}, 1500))
	torn.SetBytes(segmentOf(t, torn), data)
	for i, key := range []string{"pods/b", "pods/c"} {
		again, stop, err := start(t, small(torn))
		if err != nil {
			t.Fatalf("open %d: %v", i, err)
		}
		if got := commit(t, again, key, "2"); got != revlog.DefaultBaseRevision+int64(i)+2 {
			t.Errorf("%s got revision %d", key, got)
		}
		unclosed := torn.Clone()
		if err := stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
		torn = unclosed
	}
}

func TestMissingFileIsDetected(t *testing.T) {
	random := seeded(t)
	fs, _ := written(t, random)
	for _, name := range fs.Names() {
		bad := fs.Clone()
		bad.SetBytes(name, nil)
		_, _, err := start(t, small(bad))
		if got, ok := errors.AsType[*store.CorruptError](err); !ok || got.Advice == "" || got.Found == "" {
			t.Errorf("without %s: open gives %v, want CorruptError", name, err)
		}
	}
}

// TestReadDetectsDamage damages a segment below an open log.
func TestReadDetectsDamage(t *testing.T) {
	fs := disktest.New(seeded(t))
	l := open(t, small(fs))
	for i := range 3 {
		// More than the log keeps in memory, so that the first is read from its segment.
		value := bytes.Repeat([]byte{byte(i + 1)}, revlog.MaxValueBytes)
		for n := range 3 {
			if _, err := l.Commit(t.Context(), store.Txn{Key: fmt.Sprintf("pods/%d-%d", i, n), Value: value}); err != nil {
				t.Fatalf("commit: %v", err)
			}
		}
	}
	read := func() error {
		_, err := l.Read(t.Context(), store.Query{Start: "pods/0-0"})
		return err
	}
	if err := read(); err != nil {
		t.Fatalf("read: %v", err)
	}
	for _, name := range fs.Names() {
		if data := fs.Bytes(name); len(data) > 10_000 {
			data[5_000] ^= 1
			fs.SetBytes(name, data)
		}
	}
	if got, ok := errors.AsType[*store.CorruptError](read()); !ok || got.Offset < 0 {
		t.Errorf("reading a damaged record gives %v, want CorruptError with its offset", got)
	}
}

func TestForeignDirectoryIsRefused(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"other files":      {"notes.txt": "hello"},
		"segment only":     {"seg-000000003b9aca01.log": "x"},
		"other manifest":   {"MANIFEST": "bitcask 1 00000000\n{}"},
		"binary manifest":  {"MANIFEST": "\x00\x01\x02"},
		"empty manifest":   {"MANIFEST": ""},
		"newer manifest":   {"MANIFEST": "gapless-revlog 9 00000000\n{}"},
		"damaged manifest": {"MANIFEST": "gapless-revlog 1 00000000\n{}"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatalf("write a file: %v", err)
				}
			}
			l, err := revlog.Open(t.Context(), revlog.Options{Dir: dir})
			got, ok := errors.AsType[*store.CorruptError](err)
			if !ok || !strings.HasPrefix(got.Path, dir) || got.Advice == "" || got.Found == "" {
				t.Fatalf("open gives %v, %v, want CorruptError with path, what was found and advice", l, err)
			}
			for file, content := range files {
				if b, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(b) != content {
					t.Errorf("%s was changed to %q (%v)", file, b, err)
				}
			}
		})
	}
}

// FuzzOpenDamaged opens a log of which one file was replaced by any bytes.
func FuzzOpenDamaged(f *testing.F) {
	fs, life := written(f, rand.New(rand.NewPCG(1, 2)))
	names := fs.Names()
	for i, name := range names {
		f.Add(uint8(i), fs.Bytes(name))
	}
	f.Add(uint8(0), []byte("gapless-revlog 1 00000000\n{}"))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		bad := fs.Clone()
		bad.SetBytes(names[int(which)%len(names)], append([]byte{}, data...))
		l, stop, err := start(t, small(bad))
		if err != nil {
			if _, ok := errors.AsType[*store.CorruptError](err); !ok {
				t.Fatalf("open gives %v, want CorruptError", err)
			}
			return
		}
		life.compare(t, l)
		if err := stop(); err != nil {
			t.Fatalf("stop: %v", err)
		}
	})
}
