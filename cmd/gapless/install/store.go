package install

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gapless-io/gapless/cmd/gapless/dropin"
)

// installStore copies program under the names of the three programs into a directory of a
// store. They are copies, since setup-envtest and its users move and archive such directories.
func installStore(dir, program string, force bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as setup-envtest
		return fmt.Errorf("make the directory of the programs: %w", err)
	}
	// setup-envtest leaves its directories read-only.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // as setup-envtest
		return fmt.Errorf("make the directory of the programs writable: %w", err)
	}
	ours, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read what this program was built from: %w", err)
	}
	names := dropin.Names()
	if runtime.GOOS == "windows" {
		for i := range names {
			names[i] += ".exe"
		}
	}
	if !force {
		if err := checkStore(dir, names, ours.Path); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := copyProgram(filepath.Join(dir, name), program); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return nil
}

// checkStore returns an error if a directory has other programs than those that were built
// from a package.
func checkStore(dir string, names []string, pkg string) error {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if built, err := buildinfo.ReadFile(path); err != nil || built.Path != pkg {
			return fmt.Errorf("%s is another program: use another directory (--dir) or version (--as), or replace it (--force)",
				path)
		}
	}
	return nil
}

// copyProgram replaces a file by a copy of program, which can be executed. A process that runs
// from the old file keeps it.
func copyProgram(path, program string) (err error) {
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(to.Name()))
		}
	}()
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o755), to.Close()); err != nil { // as setup-envtest's
		return err
	}
	return os.Rename(to.Name(), path)
}
