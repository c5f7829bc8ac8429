// Package store is the contract of everything that keeps revisioned bytes.
//
// It has four nouns. A [Record] is one version of one key. A [Txn] is one
// conditional write, which becomes exactly one new revision. A [Page] is what a
// range read answers, at the latest or at an older revision. A [Feed] is the
// ordered, gap-free stream of what was written after a revision.
//
// Revisions are int64, strictly increasing, one per committed write. Keys are
// "<resource>/<rest>": everything before the first slash is the resource, the
// unit of which expiry is decided (see [CompactedError]). Values are opaque.
package store

import (
	"context"
	"strings"
	"time"
)

// Store keeps revisioned bytes. Every method is safe for concurrent use and
// returns ctx's cause when ctx ends first.
type Store interface {
	// Read returns the live records with Start <= key < End in byte order of
	// the keys, as they were at one revision. It never returns a record that is
	// not durable. Errors: *CompactedError, *FutureRevisionError, ErrClosed.
	Read(ctx context.Context, q Query) (Page, error)

	// Commit applies one conditional write and returns after it is durable. A
	// failed condition is *ConflictError, which carries the current record.
	// After *PoisonedError (the disk failed) every later Commit fails the same
	// way while reads go on. *NoSpaceError and *TooLargeError refuse the write
	// and leave the store usable. When ctx ends while the write is under way its outcome is
	// unknown to the caller, but it is either wholly there or not at all.
	Commit(ctx context.Context, t Txn) (Committed, error)

	// Changes opens a feed of every change with a revision > f.After. It fails
	// with *CompactedError when something in its range that was removed is
	// needed, and with *FutureRevisionError never: a feed from the future waits.
	Changes(ctx context.Context, f From) (Feed, error)

	// Compact forgets history and returns the revision up to which it did.
	// The latest version of every live key stays readable.
	Compact(ctx context.Context, c Compaction) (int64, error)

	// Progress returns a revision that every write acknowledged before the call
	// is at or below, and at which Read is possible (a linearizable read index).
	Progress(ctx context.Context) (int64, error)
}

// Query selects a range of keys at one revision.
type Query struct {
	Start string // first key, inclusive
	End   string // first key after the range; "" means only the key Start
	// AtRevision is the revision to read at; 0 means the latest durable one.
	AtRevision int64
	Limit      int // most records to return; 0 means all
}

// Record is one version of one key. Value is owned by the store and must not be
// modified; it stays valid for as long as the caller holds it.
type Record struct {
	Key            string
	Value          []byte
	ModRevision    int64     // the revision that wrote this version
	CreateRevision int64     // the revision that created the key
	Time           time.Time // when this version was committed (wall clock, ms)
}

// Page is the answer to a Query.
type Page struct {
	Records  []Record
	Revision int64 // the revision at which the whole page was read
	More     bool  // Limit cut the range: more keys follow the last record
	// Remaining is the number of keys in the range after the last record; 0
	// when More is false.
	Remaining int64
}

// Txn is one write to one key. ExpectedModRevision is compared with the key's
// current ModRevision: 0 means "the key does not exist". Delete removes the key.
// There are no unconditional writes; a Delete that expects the key not to exist
// is always a conflict.
type Txn struct {
	Key                 string
	Value               []byte // ignored by Delete; not retained by the store after Commit returns
	Delete              bool
	ExpectedModRevision int64
}

// Committed says at which revision a Txn was applied.
type Committed struct {
	Revision int64
}

// From says where a feed starts.
type From struct {
	// Prefix selects keys; "" is everything, otherwise it must contain the
	// slash that ends the resource ("configmaps/" or "configmaps/default/").
	Prefix string
	After  int64 // the first change delivered has a revision > After
	// UpTo, if not 0, ends the feed with io.EOF once every change <= UpTo was
	// delivered. Otherwise Next waits for new changes.
	UpTo int64
}

// Change is one committed write: a put, or the deletion of a key.
type Change struct {
	Revision int64
	Key      string
	Value    []byte // nil for a deletion
	Deleted  bool
	Time     time.Time // when it was committed
	// Previous is the version this write replaced, nil for a creation. It is
	// always there otherwise: where it was removed the feed fails instead.
	Previous *Record
}

// Batch is what one call of Next delivers. Changes is ordered by revision and
// never splits a revision. Through says that every change of the feed with a
// revision <= Through has now been delivered, so that a feed of a quiet prefix
// makes progress too; it is at or above the last change's revision.
type Batch struct {
	Changes []Change
	Through int64
}

// Feed is a cursor over the changes. It is used by one goroutine at a time.
type Feed interface {
	// Next blocks until there is a change, or (for a feed with UpTo) the end is
	// reached. It returns *CompactedError when the feed fell behind the
	// compaction mark of its range; it never skips a change. A live feed may
	// also return an empty batch whose Through has moved.
	Next(ctx context.Context) (Batch, error)
	// Close releases the feed. It is safe to call more than once.
	Close() error
}

// Compaction says what to forget: one of UpTo and OlderThan is set. UpTo behind an
// earlier compaction is not an error and does nothing; UpTo ahead of the latest
// revision is *FutureRevisionError.
type Compaction struct {
	UpTo      int64         // forget what was superseded or deleted at or below this revision
	OlderThan time.Duration // the same, by the age of the superseding write; 0 < OlderThan
	// NotAfter bounds what OlderThan forgets, for a caller who still has to read
	// what comes after that revision; 0 is no bound.
	NotAfter int64
}

// ResourceOf returns the part of key before the first slash.
func ResourceOf(key string) string {
	resource, _, _ := strings.Cut(key, "/")
	return resource
}

// PrefixEnd returns the smallest key that is larger than every key with the
// given prefix, for use as Query.End.
func PrefixEnd(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return string(end[:i+1])
		}
	}
	return "\xff\xff\xff\xff" // every byte is 0xff: no key of ours is larger
}
