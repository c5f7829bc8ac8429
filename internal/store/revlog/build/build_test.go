package build_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/build"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const runBytes = 4 << 10

// filled returns a builder that has records of the revisions 1 to n, in a random order.
func filled(t *testing.T, files disk.FS, n int) *build.Builder {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(n), 1))
	b := build.New(files, runBytes)
	for _, i := range random.Perm(n) {
		put(t, b, int64(i+1), 1+random.IntN(300))
	}
	return b
}

// put adds a record.
func put(t *testing.T, b *build.Builder, revision int64, bytes int) {
	t.Helper()
	err := b.Put(store.Record{
		Key: fmt.Sprintf("pods/a/%d", revision), Value: []byte(strings.Repeat("x", bytes)),
		ModRevision: revision, CreateRevision: (revision + 1) / 2, Time: time.UnixMilli(revision),
	})
	if err != nil {
		t.Fatalf("put revision %d: %v", revision, err)
	}
}

// end is where the logs of these tests continue.
func end() build.End { return build.End{From: 1 << 20, To: 1 << 21, Time: time.UnixMilli(1 << 20)} }

// TestSegmentsAreInTheOrderOfRevisions puts records in any order, also some that are larger than what is sorted
// at once: a merge of the log copies its segments one after the other.
func TestSegmentsAreInTheOrderOfRevisions(t *testing.T) {
	for _, n := range []int{0, 1, 10, 1000} {
		files := disk.NewMemory()
		b := filled(t, files, n)
		want := int64(n)
		for range min(n, 3) {
			want++
			put(t, b, want, 3*runBytes)
		}
		if err := b.Finish(t.Context(), end()); err != nil {
			t.Fatalf("%d records: %v", n, err)
		}
		m := manifest(t, files)
		last := int64(0)
		for _, e := range m.Segments[:len(m.Segments)-1] {
			if e.First <= last {
				t.Fatalf("%d records: segment %+v follows revision %d", n, e, last)
			}
			last = scanned(t, files, e, m.ID(), last)
			if last != e.Last {
				t.Errorf("%d records: segment %+v ends at revision %d", n, e, last)
			}
		}
		if last != want {
			t.Errorf("%d records: the last one is at revision %d, want %d", n, last, want)
		}
		if segments := len(m.Segments); n == 1000 && segments < 10 {
			t.Errorf("%d records are in %d segments only", n, segments)
		}
		names, err := files.Dir().Names()
		if err != nil || len(names) != len(m.Segments)+1 {
			t.Errorf("%d records: the directory has %v, %v", n, names, err)
		}
	}
}

// manifest reads that of a log.
func manifest(t *testing.T, files disk.FS) format.Manifest {
	t.Helper()
	file, size, err := files.Open(format.ManifestName)
	if err != nil {
		t.Fatalf("open the manifest: %v", err)
	}
	m, err := format.ReadManifest(file, size)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatalf("read the manifest: %v", err)
	}
	return m
}

// scanned reads a segment, whose records are to have every revision after last, and returns that of the last one.
func scanned(t *testing.T, files disk.FS, e format.SegmentEntry, id format.StoreID, last int64) int64 {
	t.Helper()
	file, _, err := files.Open(e.Name())
	if err != nil {
		t.Fatalf("open a segment: %v", err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Errorf("close a segment: %v", err)
		}
	}()
	scan := format.NewScanner(format.SegmentReader{
		File: file, Name: e.Name(), Kind: e.Kind, First: e.First, End: e.End,
		Seed: format.SegmentSeed(format.EncodeSegmentHeader(e, id, 0)),
	})
	for {
		records, err := scan.Next()
		if errors.Is(err, io.EOF) {
			return last
		}
		if err != nil {
			t.Fatalf("scan %s: %v", e.Name(), err)
		}
		for _, r := range records {
			if last++; r.Revision != last || r.Create != (last+1)/2 || r.Key != fmt.Sprintf("pods/a/%d", last) {
				t.Fatalf("%s has %s at revision %d, created at %d; want revision %d", e.Name(), r.Key, r.Revision, r.Create, last)
			}
		}
	}
}

// TestARevisionIsPutOnce: also when its records are in different runs.
func TestARevisionIsPutOnce(t *testing.T) {
	for _, n := range []int{3, 1000} {
		b := filled(t, disk.NewMemory(), n)
		put(t, b, 2, 10)
		if err := b.Finish(t.Context(), end()); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), "revision 2:") {
			t.Errorf("revision 2 twice among %d: %v", n, err)
		}
	}
}

// TestRecordsOfOneRevisionGetTheNextOnes: each has its own, also where they are in different runs, and the log
// continues above them.
func TestRecordsOfOneRevisionGetTheNextOnes(t *testing.T) {
	for _, n := range []int{3, 1000} {
		files := disk.NewMemory()
		b := build.New(files, runBytes)
		for i := range n {
			r := store.Record{
				Key: fmt.Sprintf("pods/a/%d", i), Value: []byte(strings.Repeat("x", 50)), ModRevision: int64(10 + i%2),
				CreateRevision: int64(10 - i%2), Time: time.UnixMilli(1),
			}
			if err := b.Put(r); err != nil {
				t.Fatalf("put record %d: %v", i, err)
			}
		}
		last := int64(10 + n - 1)
		if err := b.Finish(t.Context(), build.End{From: 11, To: last + 1, Time: time.UnixMilli(1), Shared: true}); err != nil {
			t.Fatalf("%d records: %v", n, err)
		}
		m := manifest(t, files)
		if m.Raised.From != last {
			t.Errorf("%d records: the log continues after %d, want %d", n, m.Raised.From, last)
		}
		log, err := revlog.Open(t.Context(), revlog.Options{Dir: "log", FS: files})
		if err != nil {
			t.Fatalf("open the log of %d records: %v", n, err)
		}
		page, err := log.Read(t.Context(), store.Query{End: store.PrefixEnd("")})
		if err = errors.Join(err, log.Close()); err != nil {
			t.Fatalf("read the log of %d records: %v", n, err)
		}
		seen := map[int64]bool{}
		for _, r := range page.Records {
			seen[r.ModRevision] = true
		}
		if len(page.Records) != n || len(seen) != n || !seen[10] || !seen[last] {
			t.Errorf("%d records: %d are there, at %d revisions", n, len(page.Records), len(seen))
		}
	}
}

// TestALogContinuesAboveItsRecords: sharing can raise them.
func TestALogContinuesAboveItsRecords(t *testing.T) {
	b := build.New(disk.NewMemory(), runBytes)
	for i := range 5 {
		r := store.Record{Key: fmt.Sprintf("pods/a/%d", i), ModRevision: 10, CreateRevision: 10, Time: time.UnixMilli(1)}
		if err := b.Put(r); err != nil {
			t.Fatalf("put record %d: %v", i, err)
		}
	}
	err := b.Finish(t.Context(), build.End{From: 10, To: 14, Time: time.UnixMilli(1), Shared: true})
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("continue after 14, with a record at 14: %v", err)
	}
}

// TestAFinishThatIsCancelledMakesNoLog: it may take minutes.
func TestAFinishThatIsCancelledMakesNoLog(t *testing.T) {
	for _, n := range []int{3, 1000} {
		files := disk.NewMemory()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := filled(t, files, n).Finish(ctx, end()); !errors.Is(err, context.Canceled) {
			t.Errorf("%d records: %v", n, err)
		}
		if _, _, err := files.Open(format.ManifestName); err == nil {
			t.Errorf("%d records: there is a manifest", n)
		}
	}
}

// spoiled is a directory of which the reads have a wrong byte at a place.
type spoiled struct {
	disk.FS

	at int64
}

// Open implements disk.FS.
func (s spoiled) Open(name string) (disk.File, int64, error) {
	file, size, err := s.FS.Open(name)
	return spoiledFile{File: file, at: s.at % max(size, 1)}, size, err
}

type spoiledFile struct {
	disk.File

	at int64
}

// ReadAt implements io.ReaderAt.
func (f spoiledFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if f.at >= off && f.at < off+int64(n) {
		p[f.at-off] ^= 0x10
	}
	return n, err
}

// TestADiskThatChangesWhatIsSortedIsNoticed: the records get new checksums afterwards.
func TestADiskThatChangesWhatIsSortedIsNoticed(t *testing.T) {
	for at := int64(0); at < 600; at += 7 {
		err := filled(t, spoiled{FS: disk.NewMemory(), at: at}, 200).Finish(t.Context(), end())
		if err == nil || !strings.Contains(err.Error(), "read what was sorted from runs.tmp") {
			t.Errorf("byte %d is wrong: %v", at, err)
		}
	}
}
