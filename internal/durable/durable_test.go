package durable_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/durable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMkdirAllSyncsTheParentOfEachDirectoryThatItMakes(t *testing.T) {
	root := t.TempDir()
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return nil
	}
	deep := filepath.Join(root, "a", "b", "c")
	if err := durable.MkdirAllWith(deep, sync); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	if want := []string{root, filepath.Join(root, "a"), filepath.Join(root, "a", "b")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	synced = nil
	if err := durable.MkdirAllWith(deep, sync); err != nil || synced != nil {
		t.Errorf("of a directory that exists %q is synced (%v)", synced, err)
	}
	if info, err := os.Stat(deep); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made %v, %v", info, err)
	}
}

func TestMkdirAllRefusesAFileInTheWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if err := durable.MkdirAll(path); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestWriteFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "file")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, name := range []string{path, path + ".tmp"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Skipf("no links here: %v", err)
		}
	}
	if err := durable.WriteFile(path, []byte("new")); err != nil {
		t.Fatalf("write the file: %v", err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("the link's target holds %q, %v", b, err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v; want a plain one of its owner", info, err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "new" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

func TestWriteFileThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	if err := durable.WriteFile(path, []byte("new")); err == nil {
		t.Error("a directory is replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
