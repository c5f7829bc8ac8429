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
// scripts cannot be executed, and returns the copy. It is kept, so that programs are linked only once.
func (o operator) source(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(harness.CacheDir(t, "suites"), strings.ReplaceAll(o.module, "/", "_")+"@"+o.version)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(goCommand(t, t.TempDir(), "mod", "download", "-json", o.module+"@"+o.version),
		&downloaded); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	unfinished, err := os.MkdirTemp(filepath.Dir(dir), "unfinished")
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	err = filepath.WalkDir(downloaded.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(downloaded.Dir, path)
		if err != nil {
			return err
		}
		to := filepath.Join(unfinished, rel)
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
	if err == nil {
		err = os.Rename(unfinished, dir)
	}
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
	return dir
}

// build compiles the suite, and returns its program and the directory in which it runs.
func (s suite) build(t *testing.T) (program, dir string) {
	t.Helper()
	root := s.operator.source(t)
	program = filepath.Join(root, "gapless-suites", strings.NewReplacer("/", "_", ".", "root").Replace(s.pkg)+".test")
	goCommand(t, root, "test", "-c", "-o", program, "./"+s.pkg)
	return program, filepath.Join(root, s.pkg)
}
