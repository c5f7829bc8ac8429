package fsck_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

// raise runs a repair that raises the log.
func raise(t *testing.T, log string, by int64) (*fsck.Report, error) {
	t.Helper()
	return fsck.Run(t.Context(), log, fsck.Options{Repair: true, Raise: true, Bump: by, Kept: filepath.Join(t.TempDir(), "kept")})
}

func TestARaisedLogSkipsRevisionsAndKeepsEverything(t *testing.T) {
	for _, closed := range []bool{true, false} {
		s := written(t, closed)
		log := spread(t, t.TempDir(), s.files)
		report, err := raise(t, log, 500)
		if err != nil {
			t.Fatalf("raise the revision: %v", err)
		}
		skipped := fsck.Revisions{From: s.last + 1, To: s.last + 500}
		if fix := report.Repair; fix == nil || fix.Skipped == nil || *fix.Skipped != skipped || fix.Revision != skipped.To ||
			report.Lost() || report.Worst() != "" {
			t.Fatalf("closed %v: %+v, repair %+v", closed, report, report.Repair)
		}
		// Nothing was written since: the same is done already, and more is counted from where the log ended.
		for by, want := range map[int64]*fsck.Revisions{500: nil, 3: nil, 800: {From: s.last + 1, To: s.last + 800}} {
			dir := t.TempDir()
			again := spread(t, dir, slurp(t, log))
			report, err := raise(t, again, by)
			if err != nil || report.Raised == nil || *report.Raised != skipped || (report.Repair == nil) != (want == nil) {
				t.Fatalf("raised again by %d: %+v, %v", by, report, err)
			}
			if want != nil && *report.Repair.Skipped != *want {
				t.Errorf("raised again by %d: %+v, want %+v", by, report.Repair.Skipped, want)
			}
		}
		// Every revision up to the raised one is of another history.
		for range 2 { // also after a start
			open, end := opened(t, log)
			for _, revision := range []int64{s.first, s.last, s.last + 1, s.last + 499} {
				for _, key := range []string{"pods/", "leases/"} { // the second has never had any
					_, err := open.Changes(t.Context(), store.From{Prefix: key, After: revision})
					compacted, is := errors.AsType[*store.CompactedError](err)
					if !is || compacted.Reason != "replaced" || compacted.Floor != s.last+500 {
						t.Errorf("changes of %s after %d: %v, want CompactedError", key, revision, err)
					}
				}
			}
			end()
		}
		if err := s.verify(t, log, nil, nil); err != nil { // it writes, too
			t.Errorf("verify: %v", err)
		}
		report, err = raise(t, log, 500)
		if err != nil || report.Repair == nil || report.Repair.Skipped.To != s.last+500+1+500 {
			t.Errorf("raised after a write: %+v, %v", report.Repair, err)
		}
	}
}

func opened(t *testing.T, dir string) (log *revlog.Log, end func()) {
	t.Helper()
	log, err := revlog.Open(t.Context(), options(dir))
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	return log, func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Errorf("close the log and wait for the end: %v", err)
		}
	}
}

// TestARepairOfALogThatIsRaisedSkipsToo: damage that costs nothing skips nothing by itself.
func TestARepairOfALogThatIsRaisedSkipsToo(t *testing.T) {
	s := written(t, true)
	files := maps.Clone(s.files)
	for name, b := range files {
		if strings.HasPrefix(name, "seg-") { // the header, which is restored
			files[name] = slices.Clone(b)
			files[name][10] ^= 1
		}
	}
	log := spread(t, t.TempDir(), files)
	report, err := raise(t, log, 500)
	if err != nil || report.Worst() != fsck.Repairable || report.Lost() || report.Repair.Revision != s.last+500 {
		t.Errorf("%+v, repair %+v, %v", report, report.Repair, err)
	}
	if err := s.verify(t, log, nil, nil); err != nil {
		t.Errorf("verify: %v", err)
	}
}

func TestALogIsNotRaisedOverTheLastRevision(t *testing.T) {
	s := written(t, true)
	dir := t.TempDir()
	log := spread(t, dir, s.files)
	if _, err := raise(t, log, math.MaxInt64-1<<40-s.last+1); err == nil || !strings.Contains(err.Error(), "the last one is") {
		t.Errorf("raised over the end: %v", err)
	}
	if !maps.EqualFunc(slurp(t, log), s.files, bytes.Equal) {
		t.Error("the log was changed")
	}
}

// TestANewerFormatIsNotDamage is a MANIFEST or a segment that a newer version has written.
func TestANewerFormatIsNotDamage(t *testing.T) {
	s := written(t, true)
	for name, b := range s.files {
		b = slices.Clone(b)
		if name == "MANIFEST" {
			b = append([]byte("gapless-revlog 9 "), b[len("gapless-revlog 9 "):]...)
		} else {
			binary.LittleEndian.PutUint32(b[8:], 9)
			binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli)))
		}
		files := maps.Clone(s.files)
		files[name] = b
		log := spread(t, t.TempDir(), files)
		report, err := raise(t, log, 500)
		if err != nil || report.Worst() != fsck.Newer || report.Repair != nil ||
			!strings.Contains(report.Problems[0].Found, "written by a newer version") {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
		if !maps.EqualFunc(slurp(t, log), files, bytes.Equal) {
			t.Errorf("%s: the log was changed", name)
		}
		_, err = revlog.Open(t.Context(), options(log))
		if e, is := errors.AsType[*store.CorruptError](err); !is || e.Path != filepath.Join(log, name) ||
			!strings.Contains(e.Advice, "use the version of gapless that wrote it") {
			t.Errorf("%s: a start says %v", name, err)
		}
		files["MANIFEST"] = []byte("lost")
		if name != "MANIFEST" {
			report, err := fsck.Run(t.Context(), spread(t, t.TempDir(), files), fsck.Options{})
			if err != nil || report.Worst() != fsck.Newer {
				t.Errorf("%s without a MANIFEST: %+v, %v", name, report, err)
			}
		}
	}
}
