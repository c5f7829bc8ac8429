package fsck_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

// stages returns the files of a log before and after a compaction that merges its
// old segments, and after some more writes.
func stages(t *testing.T) (s *sample, before, after map[string][]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	s = &sample{wrote: map[int64]version{}, first: 101}
	w := run(t, dir, s)
	fill := strings.Repeat("x", 300)
	for i := range 36 {
		w.put(fmt.Sprintf("pods/a%d", i%6), fmt.Sprint(i, fill))
	}
	w.remove("pods/a2")
	for i := range 12 {
		w.put(fmt.Sprintf("nodes/n%d", i%3), fmt.Sprint(i, fill))
	}
	before = slurp(t, dir)
	if _, err := w.log.Compact(t.Context(), store.Compaction{UpTo: s.last}); err != nil {
		t.Fatalf("compact the log: %v", err)
	}
	w.put("pods/a1", "after the compaction")
	w.stop()
	after = slurp(t, dir)
	return s, before, after
}

// TestManifestIsRebuiltAfterACrash removes the manifest of a log with
// whatever a crash in the middle of a compaction may have left: any of the segments
// that were merged. No deleted object reappears: where some between others
// are missing, fsck refuses.
func TestManifestIsRebuiltAfterACrash(t *testing.T) {
	s, before, after := stages(t)
	var merged []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			merged = append(merged, name)
		}
	}
	if len(merged) < 3 ||
		!slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(n string) bool { return strings.HasPrefix(n, "base-") }) {
		t.Fatalf("merged %v into %v", merged, slices.Sorted(maps.Keys(after)))
	}
	counts := map[fsck.Severity]int{}
	for subset := range 1 << len(merged) {
		files := maps.Clone(after)
		delete(files, "MANIFEST")
		for i, name := range merged {
			if subset>>i&1 == 1 {
				files[name] = before[name]
			}
		}
		report, err := s.examine(t, t.TempDir(), files)
		if err != nil {
			t.Fatalf("with %b of %v: %v", subset, merged, err)
		}
		if report.Worst() == fsck.Repairable {
			if !report.Lost() || len(report.LostKeys) > 0 {
				t.Errorf("with %b of %v: %+v, want that writes may be lost", subset, merged, report)
			}
			s.isWhole(t, files)
		}
		counts[report.Worst()]++
	}
	if counts[fsck.Repairable] <= len(merged) { // none of them, or those of a suffix
		t.Errorf("too little can be repaired: %v", counts)
	}
	t.Logf("%d merged segments: %v", len(merged), counts)
}

// isWhole repairs a log and compares all of it with what was written: nothing is lost, although
// the report cannot know that.
func (s *sample) isWhole(t *testing.T, files map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	log := spread(t, dir, files)
	if _, err := fsck.Run(t.Context(), log, fsck.Options{Repair: true, Kept: filepath.Join(dir, "damaged")}); err != nil {
		t.Fatalf("run fsck: %v", err)
	}
	if err := s.verify(t, log, nil, nil); err != nil {
		t.Errorf("verify: %v", err)
	}
}

// TestOldManifestIsDetected puts an older manifest back.
func TestOldManifestIsDetected(t *testing.T) {
	s, before, after := stages(t)
	files := maps.Clone(after)
	files["MANIFEST"] = before["MANIFEST"]
	report, err := s.examine(t, t.TempDir(), files)
	if err != nil {
		t.Fatalf("examine: %v", err)
	}
	if report.Worst() != fsck.Repairable {
		t.Errorf("found %+v", report)
	}
}
