// Package disk is the interface between the log and a file system, so that tests can
// use one that fails or crashes.
//
// An [FS] is one flat directory, a [File] is an open file in it, and a [Dir] is the directory
// as a whole. There are three implementations: [NewOS] on the operating system, [NewUnsynced]
// there without waiting for the disk, [NewMemory] in memory.
package disk

import (
	"errors"
	"io"
)

// FS is one flat directory: all that the log needs of a file system. Names have
// no separators.
type FS interface {
	// Create makes an empty file, or empties the one that is there.
	Create(name string) (File, error)
	// Open opens a file that exists and returns its size in bytes. The error
	// wraps fs.ErrNotExist if there is none.
	Open(name string) (File, int64, error)
	// Rename replaces to with from.
	Rename(from, to string) error
	// Remove removes a file that no File has open.
	Remove(name string) error
	// Dir returns the directory itself.
	Dir() Dir
}

// File is an open file. Its methods are safe for concurrent use.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Sync returns after every completed write, and the size, is on disk.
	Sync() error
	// Allocate gives the file exactly size bytes: new ones are zero and, where
	// the platform can promise it, reserved on disk.
	Allocate(size int64) error
	Close() error
}

// Dir is a directory as a whole.
type Dir interface {
	// Path names the directory in messages.
	Path() string
	// Names returns the files in it.
	Names() ([]string, error)
	// Sync returns after every earlier Create, Rename and Remove is on disk.
	Sync() error
	// Lock keeps other processes out until the result is closed; its error is
	// *store.LockedError when one is inside.
	Lock() (Held, error)
	// Close releases the directory's own handle. Files and the lock
	// are closed separately.
	Close() error
}

// Held is the lock of a directory.
type Held interface {
	// Check returns an error that wraps ErrMoved when the directory is not at its path any more:
	// what is written goes on to reach it, but who looks there does not find it.
	Check() error
	// Close releases the lock.
	Close() error
}

// ErrMoved says that a directory is not at its path any more.
var ErrMoved = errors.New("the directory of the log has gone from its place")

// Unlocked is the lock of a directory that no other process can reach.
type Unlocked struct{}

// Check implements Held.
func (Unlocked) Check() error { return nil }

// Close implements Held.
func (Unlocked) Close() error { return nil }
