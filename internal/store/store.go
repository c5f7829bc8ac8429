// Package store is the contract of a store of revisioned bytes.
//
// A [Record] is one version of one key. A [Txn] is one conditional write, which
// becomes exactly one new revision. A [Page] is the answer to a range read, at the
// latest or at an older revision. [Changes] are the ordered, gap-free stream of the
// writes after a revision.
//
// Revisions are int64 and strictly increasing. A Txn has a revision of its own. What others
// write to the same data can share one: in etcd all keys of one transaction, or of a lease
// that ends, change at one revision, each key once. Such changes always come together. Keys are
// "<resource>/<rest>": everything before the first slash is the resource, the
// unit of which expiry is decided (see [CompactedError]). Values are opaque.
//
// A store that follows another one, as a replica follows etcd, may have been away for longer than
// that one keeps history. Then it has a [Hole]: two states, and the difference between them.
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
	// After *PoisonedError (the disk may have lost data) every later Commit
	// fails the same way while reads continue. *UnavailableError and *TooLargeError
	// refuse the write and leave the store usable. When ctx ends while the write
	// is in progress, and after ErrOutcomeUnknown, its outcome is unknown to the
	// caller, but it takes effect completely or not at all.
	Commit(ctx context.Context, t Txn) (Committed, error)

	// Changes opens a stream of every change with a revision > f.After. It fails
	// with *CompactedError when a removed version in its range is needed, and never
	// with *FutureRevisionError: a stream from a future revision waits.
	Changes(ctx context.Context, f From) (Changes, error)

	// Compact removes history and returns the revision up to which it is
	// removed now. It stops before changes that a stream with From.Hold has not delivered
	// yet. The latest version of every live key stays readable.
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
	// At, if not zero, reads at the latest revision of the resource that was committed at or before a time of the
	// wall clock; AtRevision is 0 then. Where the clock was set back, what was written last counts. The
	// range lies in one resource. A time before what the store still has is *CompactedError.
	At time.Time
	// Limit is how many records are returned at most; 0 means all. A page with a
	// limit also ends where its values become large, but never before the first
	// record: Page.More reports whether there is more.
	Limit int
	// Count asks for Page.Remaining, which can cost a walk over the whole range.
	Count bool
	// Want selects the records whose value is read; the others have a nil
	// Value. nil means all.
	Want func(key string, modRevision int64) bool
	// Unreadable asks for records whose value cannot be read, too: see Record.Unreadable. Otherwise
	// the first one is the error of the call.
	Unreadable bool
	// Buffer, if not nil, is memory for the values: they are valid only until it is
	// given to another Read. The store may use it or not.
	Buffer *Buffer
}

// Record is one version of one key. Value is owned by the store and must not be
// modified; it stays valid for as long as the caller holds it (but see Query.Buffer
// and From.Buffer).
type Record struct {
	Key            string
	Value          []byte
	ModRevision    int64     // the revision that wrote this version
	CreateRevision int64     // the revision that created the key
	Time           time.Time // when this version was committed (wall clock, ms)
	// Unreadable says why the value cannot be read, and is nil then; nil: it can be, or was not wanted.
	// Only what others can write to does not read all values: see Query.Unreadable and From.Unreadable.
	Unreadable *UnreadableError
}

// Page is the answer to a Query.
type Page struct {
	Records  []Record
	Revision int64 // the revision at which the whole page was read
	More     bool  // Limit cut the range: more keys follow the last record
	// Remaining is, with Query.Count, the number of keys in the range after the
	// last record; 0 when More is false.
	Remaining int64
	// Generation tells apart what the store could read at different times, as with other keys of encryption: whoever
	// keeps values cannot expect to read them again once it is another one. 0 for a store, or a resource, that reads
	// the same always.
	Generation uint64
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
	// Lasting says that the object does not expire after this write, in a store that lets others of its resource
	// expire.
	Lasting bool
}

// Committed is the revision at which a Txn was applied.
type Committed struct {
	Revision int64
}

// From says where a stream starts.
type From struct {
	// Prefix selects keys; "" is everything, otherwise it must contain the
	// slash that ends the resource ("configmaps/" or "configmaps/default/").
	Prefix string
	// Key, if not "", selects the changes of one key; Prefix is "" then.
	Key string
	// Match, if not nil, selects keys among those.
	Match func(key string) bool
	After int64 // the first change delivered has a revision > After
	// Since, if not 0, says that the reader has read everything in order from Since, at or
	// before After, up to After: it may be inside a hole that begins at or after Since, and
	// gets the rest of the difference.
	Since int64
	// UpTo, if not 0, ends the stream with io.EOF once every change <= UpTo was
	// delivered. Otherwise Next waits for new changes. Changes with UpTo = After says
	// whether the changes after it can still be read, and opens nothing.
	UpTo int64
	// Limit and MaxBytes, if not 0, are how many changes a batch has at most, and how
	// many bytes their records have together, except those of a single revision: a reader
	// that wants no more does not pay for reading them. The store has limits of its own.
	Limit    int
	MaxBytes int
	// Known, if not nil, says that the reader has a change already, and how many bytes of
	// MaxBytes it takes: it is delivered with its key and revision only. It is asked about
	// changes in order, also about some that follow in a later batch.
	Known func(key string, revision int64) (bytes int, known bool)
	// Want says which values of a change are read: its own, and that of the version
	// before; the others are nil. It is given each change that is not known, without
	// values, in order. nil wants all.
	Want func(c Change) (value, previous bool)
	// Unreadable asks for changes whose value, or the one before, cannot be read, too: see
	// Change.Unreadable. Otherwise the stream fails there.
	Unreadable bool
	// Buffer, if not nil, is memory for the values: they are valid only until the next
	// Next. The store may use it or not.
	Buffer *Buffer
	// Hold protects changes that the stream has not delivered yet from compaction, until
	// Close. It is for a reader inside the process that cannot start again; if it
	// stops reading, it stops compaction.
	Hold bool
}

// Change is one committed write: a put, or the deletion of a key.
type Change struct {
	Revision int64
	Key      string
	Value    []byte // nil for a deletion, and if From.Want does not want it
	Deleted  bool
	// Shared says of a deletion that other changes have the same revision, or could have it: in a
	// hole its own is not known. A reader that has seen only this one continues from Revision-1.
	// Every reader gets the same, whatever it selects.
	Shared bool
	Time   time.Time // when it was committed
	// Unreadable says why the value cannot be read, and is nil then; nil: it can be, or was not wanted.
	// Previous has its own.
	Unreadable *UnreadableError
	// Previous is the version this write replaced, nil for a creation. It is
	// always set otherwise, maybe without its value (From.Want): if it was removed the
	// stream fails instead.
	Previous *Record
}

// Batch is the result of one call of Next. Changes is ordered by revision, within one
// revision deletions come first, and it
// never splits a revision. Through says that every change of the stream with a
// revision <= Through has now been delivered, so that a stream of a quiet prefix
// makes progress too; it is at or above the last change's revision.
//
// Holes has those over which the batch goes, in order: From is before Through, and To is after
// the end of the batch before. A batch may end inside a hole, but only with a change, or at UpTo.
//
// Compacted is set for a stream with Hold: the revision up to which history is
// compacted by now, at or below Through. A reader with a history of its own compacts
// it too.
type Batch struct {
	Changes   []Change
	Through   int64
	Holes     []Hole
	Compacted int64
}

// Hole is a part of history of which only the difference is known, between the states at From and
// at To. Whoever is at From, or before, reads on, and gets as changes what differs at To: first
// the deletions, at From+1, then what was written last, at its own revision. What was deleted and
// created again is both. In between no state is known: Read, and Changes without From.Since, fail
// with *CompactedError at a revision with From < revision < To. Holes do not overlap.
type Hole struct{ From, To int64 }

// Has reports whether a revision is inside the hole, where no state is known.
func (h Hole) Has(revision int64) bool { return h.From < revision && revision < h.To }

// Changes is a stream of changes, in order. It is used by one goroutine at a time.
type Changes interface {
	// Next blocks until there is a change, or (for a stream with UpTo) the end is
	// reached. It returns *CompactedError when the stream fell behind the
	// compaction mark of its range; it never skips a change. A live stream may
	// also return an empty batch whose Through, or with Hold Compacted, has moved.
	Next(ctx context.Context) (Batch, error)
	// Close releases the stream. It is safe to call more than once.
	Close() error
}

// Compaction says which history to remove: one of UpTo and OlderThan is set. UpTo behind an
// earlier compaction is not an error and does nothing; UpTo ahead of the latest
// revision is *FutureRevisionError.
type Compaction struct {
	UpTo      int64         // compact what was superseded or deleted at or below this revision
	OlderThan time.Duration // the same, by the age of the superseding write; 0 < OlderThan
	// Purge also removes from the disk what is compacted, by now or by an earlier compaction,
	// when Compact returns. Otherwise the store does it when it is worth it. It may write
	// everything that is stored again, and needs as much space meanwhile.
	Purge bool
	// Every makes the revision of the compaction the floor of every resource, also of those of
	// which nothing is removed and of those that come later, as in etcd; see CompactedError.
	Every bool
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
