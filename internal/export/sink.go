package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/seed/manifest"
)

// Stream writes one document after the other.
type Stream struct{ To io.Writer }

// Put writes a document.
func (s Stream) Put(_ client.Resource, _, _ string, text []byte) error {
	if _, err := fmt.Fprintf(s.To, "---\n%s", text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// Directory writes one file per object: cluster/RESOURCE/NAME.yaml, and
// namespaces/NAMESPACE/RESOURCE/NAME.yaml. It collects them in a directory of its own
// below its path, and moves them at the end, so that an export that did not finish can be
// recognized.
type Directory struct {
	path, work string
	fresh      bool            // path did not exist before
	made       map[string]bool // directories
}

// ErrNotEmpty says that the directory of an export has files.
var ErrNotEmpty = errors.New("the directory is not empty")

// NewDirectory creates the directory if it is missing. Without replace it must be empty; with replace
// Finish replaces what is in its directories cluster and namespaces, and leaves other files
// alone. The caller calls Finish or Abort. Errors: ErrNotEmpty, and those of the file
// system.
func NewDirectory(path string, replace Replace) (*Directory, error) {
	entries, err := os.ReadDir(path)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return nil, fmt.Errorf("export: %w", err)
	}
	if len(entries) > 0 && replace == KeepFormer {
		return nil, fmt.Errorf("%s: %w", path, ErrNotEmpty)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), manifest.UnfinishedPrefix) { // of an export that was killed
			if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return nil, fmt.Errorf("export: %w", err)
			}
		}
	}
	work, err := os.MkdirTemp(path, manifest.UnfinishedPrefix)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	return &Directory{path: path, work: work, fresh: absent, made: map[string]bool{}}, nil
}

// Replace says what happens to a former export in the same directory.
type Replace bool

// The values of Replace.
const (
	KeepFormer    Replace = false
	ReplaceFormer Replace = true
)

// Put writes a file, readable by its owner only: it may be a Secret.
func (d *Directory) Put(r client.Resource, namespace, name string, text []byte) error {
	file := filepath.Join(d.work, path(r, namespace, name))
	if dir := filepath.Dir(file); !d.made[dir] {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		d.made[dir] = true
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// Finish moves the files to their places.
func (d *Directory) Finish() error {
	for _, name := range []string{clusterDir, namespacesDir} {
		place := filepath.Join(d.path, name)
		if err := os.RemoveAll(place); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := os.Rename(filepath.Join(d.work, name), place); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("export: %w", err)
		}
	}
	if err := os.Remove(d.work); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// Abort removes what was written. A former export stays.
func (d *Directory) Abort() error {
	if err := os.RemoveAll(d.work); err != nil {
		return fmt.Errorf("remove an export that did not finish: %w", err)
	}
	if d.fresh {
		if err := os.Remove(d.path); err != nil {
			return fmt.Errorf("remove an export that did not finish: %w", err)
		}
	}
	return nil
}
