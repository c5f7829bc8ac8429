package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// UnfinishedPrefix begins the name of the directory in which an export is written.
	// When a directory of manifests contains one, the export did not finish.
	UnfinishedPrefix = "..gapless-export-"
	// hiddenPrefix begins the names that are skipped: in a volume of Kubernetes, "..data" and
	// what it links to hold the same files again.
	hiddenPrefix = ".."
)

// extensions are those of the files that are read in a directory (kubectl's
// resource.FileExtensions). A file that is named itself may have any name.
func extensions() []string { return []string{".json", ".yaml", ".yml"} }

// Find returns the files of these paths, in this order. Of a directory these are all files
// below it whose names end with .yaml, .yml or .json, sorted, as kubectl apply -R -f reads
// them: links to files are followed, links to directories only at the top. A file that is
// found twice is read once. Find opens the files, but does not read them; the error joins one error for
// each path that cannot be used.
func Find(paths []string) (*Files, error) {
	f := &Files{budget: heldBytes}
	seen := map[string]bool{}
	var errs []error
	for _, path := range paths {
		names, err := findIn(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, name := range names {
			full, err := filepath.Abs(name)
			if err == nil && !seen[full] {
				err = readable(name)
			}
			if err != nil {
				errs = append(errs, err)
			} else if !seen[full] {
				seen[full] = true
				f.files = append(f.files, file{name: name})
			}
		}
	}
	return f, errors.Join(errs...)
}

// findIn returns the files of one path.
func findIn(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return nil, errors.New("read manifests: a path is empty: name a file or a directory")
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("read manifests: there is no file or directory %s", path)
	case err != nil:
		return nil, fmt.Errorf("read manifests: %w", err)
	case !info.IsDir():
		return []string{path}, nil
	}
	var names []string
	err = walk(path, &names)
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("read manifests: %s contains no file with one of the extensions %s",
			path, strings.Join(extensions(), ", "))
	}
	return names, err
}

// walk adds the files below a directory. It goes on after an error, and returns all.
func walk(dir string, names *[]string) error {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), UnfinishedPrefix):
			errs = append(errs,
				fmt.Errorf("read manifests: %s is of an export that did not finish: run gapless export again, or remove it",
					path))
		case strings.HasPrefix(e.Name(), hiddenPrefix):
		case e.IsDir():
			errs = append(errs, walk(path, names))
		case slices.Contains(extensions(), filepath.Ext(path)):
			*names = append(*names, path)
		}
	}
	return errors.Join(errs...)
}

// readable returns an error for a file that cannot be read, or not twice.
func readable(name string) error {
	info, err := os.Stat(name) // before it is opened: opening a pipe waits for a writer
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	if info.IsDir() {
		return fmt.Errorf("read manifests: %s links to a directory: name that directory itself", name)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("read manifests: %s is not a regular file, and is read more than once: write it to a file first", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	return f.Close()
}
