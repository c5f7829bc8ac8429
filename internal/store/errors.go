package store

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed is returned by every method after the store was closed.
var ErrClosed = errors.New("store is closed")

// ErrInvalid is wrapped by the errors of an invalid request: a key without a
// resource, a negative revision, a Compaction without a limit.
var ErrInvalid = errors.New("invalid request to the store")

// ErrOutcomeUnknown is wrapped by the error of a write that failed halfway and
// could not be undone: it is not visible, but a later start may find it; or that was sent to
// another store, which did not answer, and may apply it later. Later writes may succeed.
var ErrOutcomeUnknown = errors.New("it is unknown whether the write took effect, or will be there later")

// CompactedError says that a read or a stream of changes needs a version that compaction
// removed. The rule is per resource: Floor is the highest revision that superseded a
// removed value, or at which a removed deletion happened; a request at N is refused
// only if N < Floor. So a resource without writes never expires.
//
// With ReasonUnseen N is inside a hole, and Floor is its end: what is before the hole can be read.
type CompactedError struct {
	Resource  string    // "" when the range spans all resources
	Requested int64     // the requested revision
	Floor     int64     // the oldest revision that can still be read
	FloorTime time.Time // when the change at Floor was committed; zero if unknown
	Reason    string    // of the removal: "age", "bytes", "requested", "repair", ReasonUnseen; "" if unknown
	RemovedAt time.Time // when it was removed; zero if unknown
}

// ReasonUnseen is the CompactedError.Reason of a revision inside a hole (Hole).
const ReasonUnseen = "unseen"

// ReasonUnreadable is the CompactedError.Reason of a range in which there is a value that cannot be read, and was
// replaced since.
const ReasonUnreadable = "unreadable"

func (e *CompactedError) Error() string {
	if e.Reason == ReasonUnseen {
		return fmt.Sprintf("revision %d of %q was not seen, the next that can be read is %d", e.Requested, e.Resource, e.Floor)
	}
	return fmt.Sprintf("revision %d of %q is compacted, the oldest kept is %d", e.Requested, e.Resource, e.Floor)
}

// FutureRevisionError says that the requested revision does not exist yet.
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

// PoisonedError says that the disk may have lost written data: a sync failed. No
// write is accepted until the process restarts and reads the disk again.
type PoisonedError struct {
	Cause error
}

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("the disk may have lost data, so no write is accepted until a restart: %v", e.Cause)
}

// Unwrap returns the failure of the disk.
func (e *PoisonedError) Unwrap() error { return e.Cause }

// UnavailableError says that a write was refused for a temporary cause, like no
// disk space, no file handles or no quorum. It had no effect. The store retries by itself, so
// that later writes succeed once the cause is gone.
type UnavailableError struct {
	// Reading is set if it was no write but a read of the latest state, which the store does not know
	// for now. What it knows can be read.
	Reading bool
	Cause   error
}

func (e *UnavailableError) Error() string {
	if e.Reading {
		return fmt.Sprintf("the latest state is not known for now: %v", e.Cause)
	}
	return fmt.Sprintf("no write is accepted for now: %v", e.Cause)
}

// Unwrap returns the error of the file system, or of the other store.
func (e *UnavailableError) Unwrap() error { return e.Cause }

// TooLargeError says that a key or value is over the store's limit.
type TooLargeError struct {
	What  string // "key" or "value"
	Bytes int
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s of %d bytes is over the limit of %d", e.What, e.Bytes, e.Limit)
}

// CorruptError says that a data directory is damaged, and how to repair it.
type CorruptError struct {
	Path   string
	Offset int64 // byte offset of the damage in Path; -1 if it concerns the whole file
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
	Holder string // the holder's note: pid and start time
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by another process (%s); stop it or choose another --data-dir", e.Path, e.Holder)
}

// UnreadableError says that a stored value cannot be decrypted, or decoded.
type UnreadableError struct {
	Key      string
	Revision int64 // the revision that wrote the value
	// Place is where the value is, if the store keeps it under another key: "/registry/secrets/default/a" in
	// etcd.
	Place string
	// Malformed is set for a value that was decrypted, or is not encrypted, and is no object that the
	// server can read.
	Malformed bool
	// Encryption is the beginning of the value, which names the provider and the key that it
	// was encrypted with: "k8s:enc:secretbox:v1:key1:"; "" for a value that is not encrypted.
	Encryption string
	// Temporary is set while the key management service that has the key does not answer.
	Temporary bool
	Cause     error
}

func (e *UnreadableError) Error() string {
	what := fmt.Sprintf("%q as of revision %d", e.Key, e.Revision)
	if e.Place != "" {
		what += fmt.Sprintf(" (in etcd %s)", e.Place)
	}
	switch {
	case e.Malformed:
		return fmt.Sprintf("%s cannot be read: %v", what, e.Cause)
	case e.Encryption == "":
		return fmt.Sprintf(
			"%s is not encrypted, but the encryption configuration does not allow that: %v; add the provider identity to it",
			what, e.Cause)
	case e.Temporary:
		return fmt.Sprintf(
			"%s cannot be decrypted for now: it is encrypted with %s, and the key management service does not answer: %v",
			what, e.Encryption, e.Cause)
	}
	return fmt.Sprintf(
		"%s cannot be decrypted: it is encrypted with %s: %v; the encryption configuration must list that provider and key",
		what, e.Encryption, e.Cause)
}

// Unwrap returns the failure of the decryption, or of the decoding.
func (e *UnreadableError) Unwrap() error { return e.Cause }
