package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

// several returns a log with several base segments, sealed ones and the one that is written, which
// was closed, and what its files were before the last writes.
func several(t *testing.T) (s *sample, older map[string][]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "log")
	s = &sample{wrote: map[int64]version{}, first: 101, closed: true}
	w := run(t, dir, s)
	fill := strings.Repeat("x", 400)
	for i := range 28 {
		w.put(fmt.Sprintf("pods/a%d", i%14), fmt.Sprint(i, strings.Repeat(fill, 60))) // more than a base segment has in a frame
	}
	if _, err := w.log.Compact(t.Context(), store.Compaction{UpTo: s.last}); err != nil {
		t.Fatalf("compact the log: %v", err)
	}
	for i := range 20 {
		w.put(fmt.Sprintf("nodes/b%d", i%9), fmt.Sprint(i, fill))
	}
	w.remove("nodes/b3")
	older = slurp(t, dir)
	for i := range 5 {
		w.put(fmt.Sprintf("secrets/c%d", i), "short")
	}
	w.stop()
	s.files = slurp(t, dir)
	bases := 0
	for name := range s.files {
		if strings.HasPrefix(name, "base-") {
			bases++
		}
	}
	if bases < 2 || len(s.files) < bases+4 {
		t.Fatalf("files %v, want two base segments and three others", slices.Sorted(maps.Keys(s.files)))
	}
	return s, older
}

// lossIsNamed repairs a log and opens it. Nothing that was acknowledged may be missing, unless
// the report says so.
func (s *sample) lossIsNamed(t *testing.T, dir string, files map[string][]byte) error {
	t.Helper()
	path := spread(t, dir, files)
	system, err := disk.NewUnsynced(path)
	if err != nil {
		return err
	}
	report, err := fsck.Run(t.Context(), path, fsck.Options{Repair: true, Kept: filepath.Join(dir, "damaged"), FS: system})
	if err != nil || report.Worst() == fsck.Beyond {
		return errors.Join(err, system.Dir().Close())
	}
	o := options(path)
	o.FS = system // which the log closes
	log, err := revlog.Open(t.Context(), o)
	if err != nil {
		return fmt.Errorf("after %+v: %w", report, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	defer func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Errorf("close the log and wait for the end: %v", err)
		}
	}()
	current, err := log.Progress(t.Context())
	if err == nil && current < s.last {
		err = fmt.Errorf("the log is at revision %d, and %d was given out", current, s.last)
	}
	if err == nil {
		err = s.compareState(t.Context(), log, current, true, losses{objects: report.LostKeys, unknown: report.LostRevisions})
	}
	if err != nil {
		return fmt.Errorf("%w, after %+v", err, report)
	}
	return nil
}

// damages are what may happen to a file.
func damages(other, older map[string][]byte) map[string]func(name string, b []byte) []byte {
	return map[string]func(string, []byte) []byte{
		"removed":     func(string, []byte) []byte { return nil },
		"empty":       func(string, []byte) []byte { return []byte{} },
		"cut in half": func(_ string, b []byte) []byte { return b[:len(b)/2] },
		"cut by 100":  func(_ string, b []byte) []byte { return b[:max(0, len(b)-100)] },
		"half zero": func(_ string, b []byte) []byte {
			return append(slices.Clone(b[:len(b)/2]), make([]byte, len(b)-len(b)/2)...)
		},
		"of another": func(name string, _ []byte) []byte { return other[name] },
		"older":      func(name string, _ []byte) []byte { return older[name] },
	}
}

// TestNoRepairHidesALoss damages every one and every two files, one of which is gone (with -stride 1
// in every way), and removes every three.
func TestNoRepairHidesALoss(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s, older := several(t)
	another, _ := several(t)
	names := slices.Sorted(maps.Keys(s.files))
	all := damages(another.files, older)
	dir := t.TempDir()
	try := func(what map[string]string) {
		files := maps.Clone(s.files)
		for name, damage := range what {
			// An older MANIFEST with other damage may be a whole older directory.
			if damage == "older" && name == "MANIFEST" && len(what) > 1 {
				return
			}
			if files[name] = all[damage](name, s.files[name]); files[name] == nil {
				delete(files, name)
			}
		}
		if len(files) == 0 || maps.EqualFunc(files, older, func(a, b []byte) bool { return string(a) == string(b) }) {
			return
		}
		if err := s.lossIsNamed(t, dir, files); err != nil {
			t.Errorf("%v: %v", what, err)
		}
	}
	for i, a := range names {
		for damage := range all {
			try(map[string]string{a: damage})
			for _, b := range names[i+1:] {
				for other := range all {
					if *stride > 1 && damage != "removed" && other != "removed" {
						continue
					}
					try(map[string]string{a: damage, b: other})
				}
			}
		}
		for j, b := range names[i+1:] {
			for _, c := range names[i+1+j+1:] {
				try(map[string]string{a: "removed", b: "removed", c: "removed"})
			}
		}
	}
}

// TestNoRepairHidesARandomLoss damages one to three files at random.
func TestNoRepairHidesARandomLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seed := *seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s, _ := several(t)
	names := slices.Sorted(maps.Keys(s.files))
	dir := t.TempDir()
	for range 200 {
		files := maps.Clone(s.files)
		var did []string
		for range 1 + random.IntN(3) {
			name := names[random.IntN(len(names))]
			b := slices.Clone(files[name])
			from := random.IntN(len(b) + 1)
			to := min(len(b), from+random.IntN(1<<random.IntN(12)+1))
			kind := []string{"flip", "zero", "cut", "remove", "swap"}[random.IntN(5)]
			did = append(did, fmt.Sprintf("%s %s %d to %d", kind, name, from, to))
			switch kind {
			case "flip":
				for i := from; i < to; i++ {
					b[i] ^= byte(1 + random.IntN(255))
				}
			case "zero":
				clear(b[from:to])
			case "cut":
				b = b[:from]
			case "remove":
				delete(files, name)
				continue
			case "swap":
				with := names[random.IntN(len(names))]
				files[with], b = b, files[with]
			}
			files[name] = b
		}
		if err := s.lossIsNamed(t, dir, files); err != nil {
			t.Fatalf("%v: %v", did, err)
		}
	}
}
