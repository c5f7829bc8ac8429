package fsck_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

// TestEveryOtherFaultIsReportedAndRepaired damages more than a byte of a log.
func TestEveryOtherFaultIsReportedAndRepaired(t *testing.T) {
	for _, closed := range []bool{true, false} {
		s := written(t, closed)
		names := slices.Sorted(maps.Keys(s.files))
		faults := map[string]map[string][]byte{}
		fault := func(name string, change func(files map[string][]byte)) {
			files := maps.Clone(s.files)
			change(files)
			faults[name] = files
		}
		for i, name := range names {
			b := s.files[name]
			fault("without "+name, func(f map[string][]byte) { delete(f, name) })
			fault("empty "+name, func(f map[string][]byte) { f[name] = nil })
			for at := 0; at < len(b); at += 97 {
				fault(fmt.Sprintf("%s cut at %d", name, at), func(f map[string][]byte) { f[name] = b[:at] })
			}
			for at := 0; at < len(b); at += 512 {
				fault(fmt.Sprintf("%s zeroed at %d", name, at), func(f map[string][]byte) {
					f[name] = slices.Clone(b)
					clear(f[name][at:min(len(b), at+512)])
				})
			}
			fault(name+" appended to itself", func(f map[string][]byte) { f[name] = slices.Concat(b, b) })
			for _, other := range names[:i] {
				fault(name+" and "+other+" swapped", func(f map[string][]byte) { f[name], f[other] = f[other], f[name] })
				fault(name+" over "+other, func(f map[string][]byte) { f[other] = b })
			}
			fault(name+" twice", func(f map[string][]byte) { f["seg-0000000000000001.log"] = b })
			fault(name+" as a base", func(f map[string][]byte) { f["base-00000099.log"] = b })
			fault(name+" in an unknown file", func(f map[string][]byte) { f["notes.txt"] = b })
		}
		for name, files := range faults {
			t.Run(fmt.Sprintf("closed %v/%s", closed, name), func(t *testing.T) {
				t.Parallel()
				report, err := s.examine(t, t.TempDir(), files)
				if err != nil {
					if s.blind(name) {
						t.Skipf("it cannot be detected: %v", err)
					}
					t.Fatalf("examine: %v", err)
				}
				if len(report.Problems) == 0 && !s.blind(name) && !maps.EqualFunc(files, s.files, bytes.Equal) &&
					!strings.Contains(name, "appended") && !strings.Contains(name, "zeroed") {
					t.Error("nothing is reported")
				}
			})
		}
	}
}

// blind says that a fault looks like a state that a log may be in: the end of what
// was written since the last start, as if it had never been.
func (s *sample) blind(name string) bool {
	names := slices.Sorted(maps.Keys(s.files))
	return !s.closed && strings.HasPrefix(name, names[len(names)-1]+" zeroed at ")
}

// fullDisk fails every operation of a kind after some have succeeded.
type fullDisk struct {
	disk.FS
	left int
}

var errFull = fmt.Errorf("the disk is full: %w", syscall.ENOSPC)

func (f *fullDisk) spend() error {
	if f.left--; f.left < 0 {
		return errFull
	}
	return nil
}

func (f *fullDisk) Create(name string) (disk.File, error) {
	if err := f.spend(); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name)
	return fullFile{file, f}, err
}

type fullFile struct {
	disk.File
	on *fullDisk
}

func (f fullFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.on.spend(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, off)
}

func (f fullFile) Sync() error {
	if err := f.on.spend(); err != nil {
		return err
	}
	return f.File.Sync()
}

func TestRepairWithoutSpaceDoesNotChangeTheLog(t *testing.T) {
	s := written(t, true)
	files := maps.Clone(s.files)
	delete(files, "MANIFEST")
	dir := t.TempDir()
	for left := 0; ; left++ {
		log := spread(t, dir, files)
		system, err := disk.NewOS(log)
		if err != nil {
			t.Fatalf("open the directory: %v", err)
		}
		report, err := fsck.Run(t.Context(), log, fsck.Options{
			Repair: true, Kept: filepath.Join(dir, "damaged"), FS: &fullDisk{FS: system, left: left},
		})
		if closing := system.Dir().Close(); closing != nil {
			t.Fatal(closing)
		}
		if err == nil {
			if report.Repair == nil || left < 5 {
				t.Errorf("%d operations are enough for %+v", left, report)
			}
			return
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("after %d operations: %v", left, err)
		}
		if now := slurp(t, log); !maps.EqualFunc(now, files, bytes.Equal) {
			t.Fatalf("after %d operations the log has %v", left, slices.Sorted(maps.Keys(now)))
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Fatalf("after %d operations %v is left (%v)", left, entries, err)
		}
	}
}

func TestLogInUseIsNotChecked(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	w := run(t, log, &sample{wrote: map[int64]version{}})
	defer w.stop()
	_, err := fsck.Run(t.Context(), log, fsck.Options{})
	if _, ok := errors.AsType[*store.LockedError](err); !ok {
		t.Errorf("run gives %v, want LockedError", err)
	}
}

// TestRepairKeepsTheHistoryBehindTheDamage damages a record of the sealed segment
// that a later one superseded.
func TestRepairKeepsTheHistoryBehindTheDamage(t *testing.T) {
	s := written(t, true)
	files := maps.Clone(s.files)
	var lost int64
	for r, v := range s.wrote { // the first version of b0 is superseded
		if v.key == "pods/b0" && (lost == 0 || r < lost) {
			lost = r
		}
	}
	for name, b := range files {
		if at := bytes.Index(b, []byte("pods/b0"+s.wrote[lost].value)); at >= 0 && strings.HasPrefix(name, "seg-") {
			files[name] = slices.Clone(b)
			files[name][at+20] ^= 1
		}
	}
	dir := t.TempDir()
	report, err := s.examine(t, dir, files)
	if err != nil {
		t.Fatalf("examine: %v", err)
	}
	want := fsck.Revisions{From: lost, To: lost}
	if len(report.Problems) != 1 || report.Problems[0].Revisions == nil || *report.Problems[0].Revisions != want ||
		!slices.Equal(report.Problems[0].Keys, []string{"pods/b0"}) || len(report.LostKeys)+len(report.LostRevisions) > 0 {
		t.Errorf("found %+v", report)
	}
	log := spread(t, dir, files)
	fixed, err := fsck.Run(t.Context(), log, fsck.Options{Repair: true, Kept: filepath.Join(dir, "damaged")})
	if err != nil || fixed.Repair.Revision != s.last || fixed.Repair.Expired >= s.last {
		t.Errorf("repaired %+v, %v; want the log to go on at %d", fixed.Repair, err, s.last)
	}
}

// TestRepairDropsAnObjectOfUnknownState damages the newest version of an object.
func TestRepairDropsAnObjectOfUnknownState(t *testing.T) {
	s := written(t, true)
	files := maps.Clone(s.files)
	for name, b := range files {
		if at := bytes.Index(b, []byte("second time")); at >= 0 {
			files[name] = slices.Clone(b)
			files[name][at] ^= 1
		}
	}
	dir := t.TempDir()
	report, err := s.examine(t, dir, files)
	if err != nil {
		t.Fatalf("examine: %v", err)
	}
	if !slices.Equal(report.LostKeys, []string{"pods/a0"}) || len(report.LostRevisions) > 0 {
		t.Errorf("found %+v", report)
	}
	log := spread(t, dir, files)
	fixed, err := fsck.Run(t.Context(), log, fsck.Options{Repair: true, Kept: filepath.Join(dir, "damaged")})
	if err != nil || fixed.Repair.Revision < s.last+fsck.DefaultBump || fixed.Repair.Expired <= s.last {
		t.Errorf("repaired %+v, %v; want all of before expired", fixed.Repair, err)
	}
}

// FuzzRun checks and repairs a log of which one file is anything.
func FuzzRun(f *testing.F) {
	s := written(f, true)
	names := slices.Sorted(maps.Keys(s.files))
	for i, name := range names {
		f.Add(uint8(i), uint16(0), s.files[name])
		f.Add(uint8(i), uint16(100), []byte("some bytes"))
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, data []byte) {
		files := maps.Clone(s.files)
		name := names[int(which)%len(names)]
		b := slices.Clone(files[name])
		from := min(int(at), len(b))
		b = append(b[:from], data...)
		if end := from + len(data); end < len(files[name]) {
			b = append(b, files[name][end:]...)
		}
		files[name] = b
		dir := t.TempDir()
		log := spread(t, dir, files)
		report, err := fsck.Run(t.Context(), log, fsck.Options{Repair: true, Kept: filepath.Join(dir, "damaged")})
		if err != nil {
			t.Fatalf("run fsck: %v", err)
		}
		if report.Worst() == fsck.Beyond {
			return
		}
		again, err := fsck.Run(t.Context(), log, fsck.Options{})
		if err != nil || again.Worst() == fsck.Repairable || again.Worst() == fsck.Beyond {
			t.Fatalf("after a repair of %+v fsck finds %+v (%v)", report, again, err)
		}
	})
}
