// Package durable writes files and creates directories that survive a power failure.
//
// A file is replaced atomically, and a directory is created with its parents. In both cases the
// entry in the parent directory is synced too.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// WriteFile replaces the file at path with body, readable by its owner only. Errors are those
// of File.
func WriteFile(path string, body []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(body); err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Commit()
}

// File is a file that replaces another one when it is complete: by Commit. Abort removes it. One of
// them is called.
type File struct {
	path string
	tmp  *os.File
}

// Create begins a file for path, readable by its owner only. What it writes first has an
// unpredictable name and is created exclusively, so that no other writer of the directory can
// redirect it; a link at path itself is replaced and not followed.
func Create(path string) (*File, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return nil, err
	}
	return &File{path: path, tmp: tmp}, nil
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) { return f.tmp.Write(p) }

// Commit puts the file in its place. On an error it is removed, and the former file is as it was, unless
// it is the directory that could not be synced: then the new file is in its place, and a power failure
// may bring the former one back.
func (f *File) Commit() error {
	err := errors.Join(f.tmp.Sync(), f.tmp.Close())
	if err == nil {
		err = os.Rename(f.tmp.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.tmp.Name()))
	}
	return SyncDir(filepath.Dir(f.path))
}

// Abort removes the file. The former one is as it was.
func (f *File) Abort() error { return errors.Join(f.tmp.Close(), os.Remove(f.tmp.Name())) }

// Rename gives a file or a directory another name in its directory.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// MkdirAll makes the directory dir and those above it that are missing, for their
// owner only, and syncs the parent of each one that it made.
func MkdirAll(dir string) error { return mkdirAll(dir, SyncDir) }

func mkdirAll(dir string, sync func(string) error) error {
	missing, err := Missing(dir)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return os.MkdirAll(dir, 0o700) // it says so if dir is a file
	}
	for _, dir := range slices.Backward(missing) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := sync(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns the directory dir and those above it that do not exist, the
// deepest first.
func Missing(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var missing []string
	for {
		_, err := os.Stat(dir)
		if err == nil {
			return missing, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing = append(missing, dir)
		if dir == filepath.Dir(dir) {
			return missing, nil
		}
		dir = filepath.Dir(dir)
	}
}

// SyncDir returns after every entry of the directory is on disk. It does nothing
// on Windows, where directories cannot be synced.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
