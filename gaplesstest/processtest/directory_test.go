package processtest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestDirectoriesThatNobodyHasLockedAreRemoved(t *testing.T) {
	in := t.TempDir()
	t.Setenv("TMPDIR", in)
	used, err := makeDirectory()
	if err != nil {
		t.Fatalf("make directory: %v", err)
	}
	other := filepath.Join(in, directoryPrefix+"begun") // its owner has not marked it yet
	abandoned := filepath.Join(in, directoryPrefix+"left")
	for _, dir := range []string{other, abandoned} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(abandoned, markName), nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	clean(in)
	for dir, want := range map[string]bool{used.path: true, other: true, abandoned: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %t", dir, err == nil)
		}
	}
	if err := used.remove(); err != nil {
		t.Errorf("remove used: %v", err)
	}
}

// TestCleaningIsBounded: the first server of a process waits for few removals.
func TestCleaningIsBounded(t *testing.T) {
	in := t.TempDir()
	for i := range 50 {
		dir := filepath.Join(in, directoryPrefix+strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, markName), nil, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	for _, want := range []int{30, 10, 0} {
		clean(in)
		if left, err := os.ReadDir(in); err != nil || len(left) != want {
			t.Errorf("%d are left, want %d (%v)", len(left), want, err)
		}
	}
}
