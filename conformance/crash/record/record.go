// Package record keeps what clients attempted and what the server answered, and finds
// contradictions. It does not depend on the server's code.
//
// An [Attempt] is one write, sent once: its content is made from its number, so the content
// identifies the attempt. A [Version] is an object as an answer or an event showed it. A
// [Watch] is what one watcher saw. The [Record] has all of them, and its violations.
package record

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Key names an object.
type Key struct{ Resource, Namespace, Name string }

// String is for messages.
func (k Key) String() string { return k.Resource + " " + k.Namespace + "/" + k.Name }

// Kind is what a write does.
type Kind int

// The kinds of writes. Update and DeleteIf carry a resourceVersion that must be
// the object's present one.
const (
	Create Kind = iota
	Update
	Replace
	Patch
	Delete
	DeleteIf
)

// String is for messages and histories.
func (k Kind) String() string {
	return [...]string{"create", "update", "replace", "patch", "delete", "deleteIf"}[k]
}

// Deletes reports whether it leaves no content.
func (k Kind) Deletes() bool { return k == Delete || k == DeleteIf }

// Outcome is what is known of an attempt.
type Outcome int

// The outcomes. Unknown also stands for an attempt that is under way.
const (
	Unknown      Outcome = iota
	Acknowledged         // answered with success
	Refused              // answered that nothing was done, or not sent
)

// Attempt is one write. The record owns it; what is known of it changes under the
// record's lock.
type Attempt struct {
	ID         int64
	Key        Key
	Kind       Kind
	If         int64 // the resourceVersion of Update and DeleteIf
	Size       int   // of the content, in bytes
	Start, End time.Duration
	Outcome    Outcome
	RV         int64  // of the content, from the answer or from an event; 0 is unknown
	closed     int64  // an outcome still unknown then, with its process, can no longer be seen after this
	UID        string // of the object written or deleted, where an answer says
}

// Version is an object as it was shown.
type Version struct {
	Key Key
	RV  int64
	UID string
	ID  int64  // the attempt that made the content, 0 if it is no content of ours
	Pad string // the rest of the content
}

// change is one entry of a key's history: a version, or the end of an object.
type change struct {
	rv      int64
	key     Key
	uid     string
	id      int64
	deleted bool
}

// Record is safe for concurrent use.
type Record struct {
	begin time.Time

	mu sync.Mutex
	// mu guards what follows.
	attempts []*Attempt // by ID - 1
	keys     map[Key]*history
	byRV     map[int64]change
	fresh    []int64            // what was put into byRV since the last check
	ended    map[string]int64   // uid to the deletion's resourceVersion
	deleted  map[string]int64   // uid to the acknowledged attempt
	doubtful map[Key][]*Attempt // deletions since the last check that may have happened
	open     []*Attempt         // writes since the last check of unknown outcome
	older    []*Attempt         // those of the check before, with several servers
	last     time.Duration      // when the last check was
	highest  int64              // largest resourceVersion that any answer acknowledged or showed
	lists    []List             // to be compared at the next check
	checked  map[string]int64   // resource to the resourceVersion of its last check
	unseen   map[string][]span  // resource to where no watcher saw every change
	totals   Totals
	problems []string

	several bool // see NewSeveral
	holes   []Hole
}

// history is what is known of one key.
type history struct {
	changes []change // sorted by rv when sorted is set
	sorted  bool
	latest  change // of the largest rv
	acked   change // the acknowledged content of the largest rv
}

// Totals count what was done and seen.
type Totals struct {
	Attempts, Acknowledged, Refused, Unknown int64
	Unsent                                   int64 // found no server to be sent to
	Events, Gets                             int64
	Lists, ListsSkipped                      int64 // compared with the events, or of a time that no watcher saw
	Checks                                   int64
	Expired                                  int64 // lists that were answered with 410
	Gaps                                     int64 // times that a watcher got 410 and listed again
	Violations                               int64
}

// New starts a record; times count from now on.
func New() *Record {
	return &Record{
		begin: time.Now(), keys: map[Key]*history{}, byRV: map[int64]change{}, ended: map[string]int64{},
		deleted: map[string]int64{}, doubtful: map[Key][]*Attempt{}, checked: map[string]int64{}, unseen: map[string][]span{},
	}
}

// NewSeveral starts a record of several servers over one storage. A write without an answer may take effect
// until the check after the next one: it can be under way in the storage when all servers serve again. History
// is removed nowhere, so that there is no 410 but for a Hole.
func NewSeveral() *Record {
	r := New()
	r.several = true
	return r
}

// Now is the time on the record's clock.
func (r *Record) Now() time.Duration { return time.Since(r.begin) }

// maxProblems bounds how many violations are kept in words; all are counted.
const maxProblems = 50

// Violation notes a contradiction.
func (r *Record) Violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violationLocked(format, args...)
}

func (r *Record) violationLocked(format string, args ...any) {
	r.totals.Violations++
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, fmt.Sprintf("at %v: ", r.Now().Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

// Violations returns those from the n-th on, in words.
func (r *Record) Violations(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.problems[min(n, len(r.problems)):])
}

// Totals returns the counts so far.
func (r *Record) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.totals
}

// Highest returns the largest resourceVersion that was acknowledged or shown so
// far: what starts now must not be older, if it is to be the most recent.
func (r *Record) Highest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.highest
}

// Latest is what is known of a key: its newest version, or that it is not there.
func (r *Record) Latest(k Key) (rv int64, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.keys[k]
	if h == nil || h.latest.deleted {
		return 0, false
	}
	if _, gone := r.deleted[h.latest.uid]; gone {
		return 0, false
	}
	return h.latest.rv, true
}

// Count adds to the totals.
func (r *Record) Count(add func(*Totals)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add(&r.totals)
}

// addLocked puts a change into its key's history.
func (r *Record) addLocked(c change) {
	h := r.keys[c.key]
	if h == nil {
		h = &history{sorted: true}
		r.keys[c.key] = h
	}
	h.sorted = h.sorted && (len(h.changes) == 0 || h.changes[len(h.changes)-1].rv < c.rv)
	h.changes = append(h.changes, c)
	if c.rv > h.latest.rv {
		h.latest = c
	}
	r.byRV[c.rv] = c
	r.fresh = append(r.fresh, c.rv)
}

// highLocked takes note of a resourceVersion that a client has seen.
func (r *Record) highLocked(rv int64) { r.highest = max(r.highest, rv) }

func (r *Record) high(rv int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.highLocked(rv)
}
