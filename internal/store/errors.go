package store

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed is returned by every method after the store was closed.
var ErrClosed = errors.New("store is closed")

// ErrInvalid is wrapped by the errors of a request that no store can answer: a
// key without a resource, a negative revision, a Compaction that says nothing.
var ErrInvalid = errors.New("invalid request to the store")

// CompactedError says that a read or a feed needs something that compaction
// removed. The rule is per resource: Floor is the highest revision at which
// something that was removed from the resource had been superseded (a value) or
// had happened (a deletion); a request at N is refused only if N < Floor. So a
// resource without writes never expires.
type CompactedError struct {
	Resource  string    // "" when the range spans all resources
	Requested int64     // the revision asked for
	Floor     int64     // the oldest revision that can still be asked for
	FloorTime time.Time // when the change at Floor was committed; zero if unknown
	Reason    string    // what removed it: "age", "bytes", "requested"; "" if unknown
	RemovedAt time.Time // when it was removed; zero if unknown
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("revision %d of %q is compacted, the oldest kept is %d", e.Requested, e.Resource, e.Floor)
}

// FutureRevisionError says that a revision was asked for that is not there yet.
type FutureRevisionError struct {
	Requested int64
	Current   int64
}

func (e *FutureRevisionError) Error() string {
	return fmt.Sprintf("revision %d is ahead of the current revision %d", e.Requested, e.Current)
}

// ConflictError says that the condition of a Txn did not hold. Current is the
// key's record at that moment, nil if the key does not exist.
type ConflictError struct {
	Key      string
	Expected int64
	Current  *Record
}

func (e *ConflictError) Error() string {
	if e.Current == nil {
		return fmt.Sprintf("key %q: expected mod revision %d, but it does not exist", e.Key, e.Expected)
	}
	return fmt.Sprintf("key %q: expected mod revision %d, found %d", e.Key, e.Expected, e.Current.ModRevision)
}

// PoisonedError says that an earlier write or sync failed, so that the state of
// the disk is unknown and no write is accepted until the process restarts.
type PoisonedError struct {
	Cause error
}

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("store accepts no writes since its disk failed: %v; restart after mending it", e.Cause)
}

// Unwrap returns the failure of the disk.
func (e *PoisonedError) Unwrap() error { return e.Cause }

// NoSpaceError says that the write was refused for lack of disk space before
// anything was written. Later writes may succeed.
type NoSpaceError struct {
	Cause error
}

func (e *NoSpaceError) Error() string { return fmt.Sprintf("no space left for history: %v", e.Cause) }

// Unwrap returns what the file system said.
func (e *NoSpaceError) Unwrap() error { return e.Cause }

// TooLargeError says that a key or value is over the store's limit.
type TooLargeError struct {
	What  string // "key" or "value"
	Bytes int
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s of %d bytes is over the limit of %d", e.What, e.Bytes, e.Limit)
}

// CorruptError says that a data directory is not what it should be, and what to
// do about it.
type CorruptError struct {
	Path   string
	Offset int64 // byte offset in Path where it was noticed; -1 if it concerns the whole file
	Found  string
	Advice string
}

func (e *CorruptError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s: %s; %s", e.Path, e.Found, e.Advice)
	}
	return fmt.Sprintf("%s at byte %d: %s; %s", e.Path, e.Offset, e.Found, e.Advice)
}

// LockedError says that another process uses the data directory.
type LockedError struct {
	Path   string
	Holder string // what the holder wrote of itself: pid and start time
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by another process (%s); stop it or choose another --data-dir", e.Path, e.Holder)
}
