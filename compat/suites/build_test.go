package suites

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// goCommand runs the go command in a directory, outside of this repository's workspaces.
func goCommand(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// source copies the operator's module out of the module cache, where nothing can be written and
// scripts cannot be executed, prepares the copy and returns it. It is kept, so that programs are
// linked only once.
func (o operator) source(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(harness.CacheDir(t, "suites"), strings.ReplaceAll(o.module, "/", "_")+"@"+o.version)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), "unfinished")
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	copyFiles(t, download(t, t.TempDir(), o.module+"@"+o.version), unfinished)
	o.prepare(t, unfinished)
	if err := os.Rename(unfinished, dir); err != nil {
		t.Fatalf("rename a directory: %v", err)
	}
	return dir
}

// download returns the directory of a module in the module cache: of the version that is named, or
// of the one that the module in dir has.
func download(t *testing.T, dir, module string) string {
	t.Helper()
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(goCommand(t, dir, "mod", "download", "-json", module), &downloaded); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return downloaded.Dir
}

// copyFiles copies the files below a directory, into one that may have others.
func copyFiles(t *testing.T, from, into string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(into, rel)
		if entry.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		return os.WriteFile(to, text, mode)
	})
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
}

// build compiles the suite, and returns its program and the directory in which it runs.
func (s suite) build(t *testing.T) (program, dir string) {
	t.Helper()
	root := s.operator.source(t)
	program = filepath.Join(root, "gapless-suites", strings.NewReplacer("/", "_", ".", "root").Replace(s.pkg)+".test")
	goCommand(t, root, "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program, "./"+s.pkg)
	return program, filepath.Join(root, s.pkg)
}
