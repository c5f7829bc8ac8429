package fsck_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var stride = flag.Int("stride", 23, "damage every so many bytes; 1 takes minutes")

var seed = flag.Uint64("seed", 0, "seed of the random tests, 0 for a new one")

// version is one write as it was acknowledged.
type version struct {
	key     string
	value   string
	deleted bool
}

// sample is a log as files, and what was written to it.
type sample struct {
	files  map[string][]byte
	wrote  map[int64]version
	first  int64
	last   int64
	closed bool
}

func options(dir string) revlog.Options {
	return revlog.Options{Dir: dir, SegmentBytes: 4 << 10, BaseRevision: 100}
}

// writer runs a log and notes what it acknowledges.
type writer struct {
	t    testing.TB
	log  *revlog.Log
	s    *sample
	at   map[string]int64
	stop func()
}

func run(t testing.TB, dir string, s *sample) *writer {
	t.Helper()
	log, err := revlog.Open(t.Context(), options(dir))
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(t.Context()) }() // ends with Close
	return &writer{t: t, log: log, s: s, at: map[string]int64{}, stop: func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Fatalf("close the log and wait for the end: %v", err)
		}
	}}
}

func (w *writer) put(key, value string) {
	w.t.Helper()
	w.commit(store.Txn{Key: key, Value: []byte(value), ExpectedModRevision: w.at[key]})
}

func (w *writer) remove(key string) {
	w.t.Helper()
	w.commit(store.Txn{Key: key, Delete: true, ExpectedModRevision: w.at[key]})
}

func (w *writer) commit(t store.Txn) {
	w.t.Helper()
	c, err := w.log.Commit(w.t.Context(), t)
	if err != nil {
		w.t.Fatalf("commit to the log: %v", err)
	}
	if w.at[t.Key] = c.Revision; t.Delete {
		w.at[t.Key] = 0
	}
	w.s.wrote[c.Revision] = version{key: t.Key, value: string(t.Value), deleted: t.Delete}
	w.s.last = c.Revision
}

func slurp(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("list a directory: %v", err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if e.Name() == "LOCK" {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatalf("read a file: %v", err)
		}
	}
	return files
}

// written returns a small log with a base segment, a sealed one and the one that is
// written, which was closed or, as after a crash, was not.
func written(t testing.TB, closed bool) *sample {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	s := &sample{wrote: map[int64]version{}, first: 101, closed: closed}
	w := run(t, dir, s)
	fill := strings.Repeat("x", 300)
	for i := range 12 {
		w.put(fmt.Sprintf("pods/a%d", i%4), fmt.Sprint(i, fill))
	}
	w.put("nodes/n", "only once")
	w.remove("pods/a3")
	if _, err := w.log.Compact(t.Context(), store.Compaction{UpTo: s.last}); err != nil {
		t.Fatalf("compact the log: %v", err)
	}
	for i := range 12 {
		w.put(fmt.Sprintf("pods/b%d", i%5), fmt.Sprint(i, fill[:200]))
	}
	if _, err := w.log.Compact(t.Context(), store.Compaction{UpTo: s.last - 12}); err != nil {
		t.Fatalf("compact the log: %v", err)
	}
	w.put("pods/a0", "second time")
	w.remove("pods/b1")
	w.put("pods/b1", "again")
	w.put("secrets/s", "1")
	w.put("secrets/s", "2")
	if !closed {
		s.files = slurp(t, dir)
		w.stop()
		return s
	}
	w.stop()
	s.files = slurp(t, dir)
	return s
}

// spread writes files into a new directory.
func spread(t testing.TB, dir string, files map[string][]byte) string {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatalf("remove a directory: %v", err)
	}
	log := filepath.Join(dir, "log")
	if err := os.MkdirAll(log, 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(log, name), b, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	return log
}

// stateAt is what was alive at a revision.
func (s *sample) stateAt(revision int64) map[string]int64 {
	state := map[string]int64{}
	for r := s.first; r <= revision; r++ {
		if v, ok := s.wrote[r]; ok && v.deleted {
			delete(state, v.key)
		} else if ok {
			state[v.key] = r
		}
	}
	return state
}

// verify opens the log in dir and compares all that it serves with what was written.
// Only the keys in lost may be missing from the newest state, or whatever the
// unknown revisions were.
func (s *sample) verify(t testing.TB, dir string, lost []string, unknown []fsck.Revisions) error {
	t.Helper()
	log, err := revlog.Open(t.Context(), options(dir))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(t.Context()) }() // ends with Close
	defer func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Errorf("close the log and wait for the end: %v", err)
		}
	}()
	current, err := log.Progress(t.Context())
	if err != nil || current < s.last {
		return fmt.Errorf("the log is at revision %d (%w), and %d was given out", current, err, s.last)
	}
	for _, revision := range append(slices.Sorted(maps.Keys(s.wrote)), current) {
		if err := s.compareState(t.Context(), log, revision, revision == current,
			losses{objects: lost, unknown: unknown}); err != nil {
			return err
		}
		if err := s.compareChanges(t, log, revision, current); err != nil {
			return err
		}
	}
	c, err := log.Commit(t.Context(), store.Txn{Key: "pods/new", Value: []byte("x")})
	if err != nil || c.Revision <= s.last {
		return fmt.Errorf("the next write got revision %d (%w), and %d was given out", c.Revision, err, s.last)
	}
	return nil
}

// losses are what a report says that is lost.
type losses struct {
	objects []string
	unknown []fsck.Revisions
}

func (s *sample) compareState(ctx context.Context, log *revlog.Log, revision int64, newest bool, gone losses) error {
	page, err := log.Read(ctx, store.Query{Start: "a", End: "z", AtRevision: revision})
	if _, ok := errors.AsType[*store.CompactedError](err); ok && !newest {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read at %d: %w", revision, err)
	}
	want := s.stateAt(min(revision, s.last))
	for _, r := range page.Records {
		v := s.wrote[r.ModRevision]
		if newest && inAny(gone.unknown, s.lastWrite(r.Key)) && v.key == r.Key && v.value == string(r.Value) {
			delete(want, r.Key)
			continue // an older state, as the report says
		}
		if want[r.Key] != r.ModRevision || v.key != r.Key || v.value != string(r.Value) {
			return fmt.Errorf("at %d: %s@%d %.20q is served, want revision %d",
				revision, r.Key, r.ModRevision, r.Value, want[r.Key])
		}
		delete(want, r.Key)
	}
	for key, r := range want {
		excused := slices.Contains(gone.objects, key) || inAny(gone.unknown, r)
		if !newest || !excused {
			return fmt.Errorf("at %d: %s@%d is missing", revision, key, r)
		}
	}
	return nil
}

func inAny(ranges []fsck.Revisions, revision int64) bool {
	return slices.ContainsFunc(ranges, func(r fsck.Revisions) bool { return r.From <= revision && revision <= r.To })
}

// lastWrite is the last revision at which a key was written or deleted.
func (s *sample) lastWrite(key string) int64 {
	var last int64
	for r, v := range s.wrote {
		if v.key == key {
			last = max(last, r)
		}
	}
	return last
}

func (s *sample) compareChanges(t testing.TB, log *revlog.Log, after, current int64) error {
	feed, err := log.Changes(t.Context(), store.From{After: after, UpTo: current})
	if _, ok := errors.AsType[*store.CompactedError](err); ok {
		return nil
	}
	if err != nil {
		return fmt.Errorf("changes after %d: %w", after, err)
	}
	defer func() { _ = feed.Close() }() // it was read
	next := after
	for next < current {
		b, err := feed.Next(t.Context())
		if err != nil {
			return fmt.Errorf("changes after %d: %w", after, err)
		}
		for _, c := range b.Changes {
			next++
			if want := (version{key: c.Key, value: string(c.Value), deleted: c.Deleted}); c.Revision != next ||
				s.wrote[next] != want {
				return fmt.Errorf("changes after %d: %d of %s follows, want %d of %s",
					after, c.Revision, c.Key, next, s.wrote[next].key)
			}
		}
		if b.Through > next && next < s.last {
			return fmt.Errorf("changes after %d: a gap from %d to %d", after, next, b.Through)
		}
		next = max(next, b.Through)
	}
	return nil
}

// examine checks, opens, repairs and opens again a log of which one file is damaged.
// It returns the report of the check.
func (s *sample) examine(t testing.TB, dir string, files map[string][]byte) (*fsck.Report, error) {
	t.Helper()
	log := spread(t, dir, files)
	report, err := fsck.Run(t.Context(), log, fsck.Options{})
	if err != nil {
		return nil, err
	}
	if !maps.EqualFunc(files, slurp(t, log), bytes.Equal) {
		return nil, errors.New("a check has changed the log")
	}
	opens := s.verify(t, log, nil, nil)
	refusal, refused := errors.AsType[*store.CorruptError](opens)
	switch {
	case opens != nil && !refused:
		return report, fmt.Errorf("the server, before a repair: %w", opens)
	case refused && !strings.HasPrefix(refusal.Path, log):
		return report, fmt.Errorf("the refusal names no file: %w", opens)
	case refused && report.Worst() != fsck.Repairable && report.Worst() != fsck.Beyond:
		return report, fmt.Errorf("the server refuses (%w), and fsck finds %+v", opens, report.Problems)
	case refused && !slices.ContainsFunc(report.Problems, func(p fsck.Problem) bool {
		return filepath.Join(filepath.Dir(log), p.File) == refusal.Path && p.Offset == refusal.Offset
	}):
		return report, fmt.Errorf("the server refuses (%w), and fsck names no such place: %+v", opens, report.Problems)
	case report.Worst() == fsck.Beyond:
		return report, nil
	}
	spread(t, dir, files)
	kept := filepath.Join(dir, "damaged")
	fixed, err := fsck.Run(t.Context(), log, fsck.Options{Repair: true, Kept: kept})
	if err != nil {
		return report, err
	}
	if (fixed.Repair == nil) != (report.Worst() != fsck.Repairable) {
		return report, fmt.Errorf("repaired: %+v of %+v", fixed.Repair, report.Problems)
	}
	again, err := fsck.Run(t.Context(), log, fsck.Options{})
	if err != nil || again.Worst() == fsck.Repairable || again.Worst() == fsck.Beyond {
		return report, fmt.Errorf("after a repair fsck finds %+v (%w)", again, err)
	}
	if fixed.Repair != nil {
		for name, b := range slurp(t, kept) {
			if !bytes.Equal(files[name], b) {
				return report, fmt.Errorf("%s was not kept as it was", name)
			}
		}
	}
	if err := s.verify(t, log, fixed.LostKeys, fixed.LostRevisions); err != nil {
		return report, fmt.Errorf("after a repair: %w\n%+v", err, fixed)
	}
	return report, nil
}

// TestEachDamagedByteIsReportedAndRepaired damages one byte of one file at a time.
func TestEachDamagedByteIsReportedAndRepaired(t *testing.T) {
	step := *stride
	if testing.Short() {
		step = max(step, 61)
	}
	for _, closed := range []bool{true, false} {
		s := written(t, closed)
		for name, b := range s.files {
			t.Run(fmt.Sprintf("closed %v/%s", closed, name), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				lossless, failed := 0, 0
				for at := 0; at < len(b); at += step {
					files := maps.Clone(s.files)
					files[name] = slices.Clone(b)
					files[name][at] ^= 0x15
					report, err := s.examine(t, dir, files)
					if err != nil {
						t.Errorf("byte %d: %v", at, err)
						if failed++; failed > 5 {
							t.FailNow()
						}
						continue
					}
					if !slices.ContainsFunc(report.Problems, func(p fsck.Problem) bool {
						return p.File == "log/"+name && p.Offset <= int64(at)
					}) {
						t.Errorf("byte %d: it is not reported: %+v", at, report.Problems)
					}
					if len(report.LostKeys) == 0 && len(report.LostRevisions) == 0 {
						lossless++
					}
				}
				t.Logf("%d bytes, %d positions without loss of an object", len(b), lossless)
			})
		}
	}
}

func TestUndamagedLogHasNoProblems(t *testing.T) {
	for _, closed := range []bool{true, false} {
		s := written(t, closed)
		report, err := s.examine(t, t.TempDir(), s.files)
		if err != nil {
			t.Fatalf("examine: %v", err)
		}
		if len(report.Problems) > 0 || report.Objects != len(s.stateAt(s.last)) || report.Revision != s.last ||
			report.Segments < 3 {
			t.Errorf("closed %v: %+v", closed, report)
		}
		t.Logf("%+v", report)
	}
}
