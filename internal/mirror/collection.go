package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/kube"
)

// Change is one change of an object.
type Change struct {
	Key kube.Key
	// RV is the resourceVersion of the change. A deletion of Replace has none.
	RV kube.ResourceVersion
	// Object is the object's JSON after the change; nil: it was deleted.
	Object []byte
}

// Collection is one collection of the other server. Append, Replace and Progress are called by
// one goroutine at a time; everything else is safe for concurrent use.
type Collection struct {
	log    *revlog.Log
	name   string
	epoch  uint64
	before kube.ResourceVersion // up to here there was a former history
	key    string               // the first part of the keys of its objects

	// mu guards what follows.
	mu        sync.Mutex
	positions positions
	noted     kube.ResourceVersion // the progress that the log has
}

func newCollection(log *revlog.Log, name string, epoch uint64, before kube.ResourceVersion) *Collection {
	return &Collection{log: log, name: name, epoch: epoch, before: before, key: keyOf(name, epoch)}
}

// Key is the first part of the keys of the collection's objects in the log.
func (c *Collection) Key() string { return c.key }

// Epoch is the number of the collection's history; each Rewrite begins another one.
func (c *Collection) Epoch() uint64 { return c.epoch }

func (c *Collection) markKey() string { return "~" + c.key + "/mark" }

func (c *Collection) mark(kind markKind, rv kube.ResourceVersion) revlog.Write {
	return revlog.Write{Key: c.markKey(), Value: encodeMark(kind, rv)}
}

func (c *Collection) put(change Change) revlog.Write {
	return revlog.Write{Key: c.key + "/" + change.Key.String(), Value: encodeObject(change.RV, change.Object)}
}

func (c *Collection) remove(key kube.Key) revlog.Write {
	return revlog.Write{Key: c.key + "/" + key.String(), Delete: true}
}

// ErrOrder says that changes are not in the order of their resourceVersions: they are not of
// one history.
var ErrOrder = errors.New("the changes are not in the order of their resourceVersions")

// Append records changes that follow what was recorded before, and that the collection had no
// other ones up to through. It returns the position after each change. Errors: ErrOrder, with
// nothing recorded; those of the log, after which what was recorded is unknown until the
// collection is opened again.
func (c *Collection) Append(ctx context.Context, changes []Change, through kube.ResourceVersion) ([]int64, error) {
	reached := c.Reached()
	writes := make([]revlog.Write, 0, len(changes))
	for _, change := range changes {
		if change.RV < reached {
			return nil, fmt.Errorf("%s at %d after %d: %w", change.Key, change.RV, reached, ErrOrder)
		}
		reached = change.RV
		if change.Object == nil {
			writes = append(writes, c.mark(markDeletion, change.RV), c.remove(change.Key))
		} else {
			writes = append(writes, c.put(change))
		}
	}
	revisions, err := c.write(ctx, writes)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	after := make([]int64, 0, len(changes))
	at := 0
	for _, change := range changes {
		if change.Object == nil {
			at++ // its mark
		}
		c.positions.add(revisions[at], change.RV)
		after = append(after, revisions[at])
		at++
	}
	c.positions.progress(max(through, reached))
	return after, nil
}

// Replaced is what Replace did.
type Replaced struct {
	// Changes are the positions of the changes, and After the one at which the state is
	// that of the other server.
	Changes []int64
	After   int64
	// Deleted is the resourceVersion that the deletions have.
	Deleted kube.ResourceVersion
}

// Replace records the difference between the recorded state and the other server's at rv, when
// the changes in between are not known. Deletions come first, and get the resourceVersion up to
// which everything was recorded, because all that is known is that they happened after it: a
// reader who was shown only some of them and goes on at the other server still misses none.
// Between that resourceVersion and rv is a hole then. Errors: those of Append.
func (c *Collection) Replace(ctx context.Context, deleted []kube.Key, changes []Change, rv kube.ResourceVersion) (Replaced, error) {
	last := c.Reached()
	writes := make([]revlog.Write, 0, len(deleted)+len(changes)+2)
	writes = append(writes, c.mark(markBegin, last))
	for _, key := range deleted {
		writes = append(writes, c.remove(key))
	}
	for _, change := range changes {
		if change.RV > rv {
			return Replaced{}, fmt.Errorf("%s at %d in the state at %d: %w", change.Key, change.RV, rv, ErrOrder)
		}
		writes = append(writes, c.put(change))
	}
	if rv < last {
		return Replaced{}, fmt.Errorf("the state at %d after %d: %w", rv, last, ErrOrder)
	}
	writes = append(writes, c.mark(markEnd, rv))
	revisions, err := c.write(ctx, writes)
	if err != nil {
		return Replaced{}, err
	}
	done := Replaced{Changes: revisions[1 : len(revisions)-1], After: revisions[len(revisions)-1], Deleted: last}
	if n := len(done.Changes); n > 0 {
		done.After = done.Changes[n-1]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.replaced(hole{from: last, to: rv, rev: done.After})
	return done, nil
}

// write records writes. A deletion of what the log does not have would be an error of the
// caller, who knows the state.
func (c *Collection) write(ctx context.Context, writes []revlog.Write) ([]int64, error) {
	revisions, err := c.log.Append(ctx, writes)
	if err != nil {
		return nil, fmt.Errorf("record changes of %s: %w", c.name, err)
	}
	for i, revision := range revisions {
		if revision == 0 {
			return nil, fmt.Errorf("record changes of %s: %q is deleted, but was not recorded", c.name, writes[i].Key)
		}
	}
	return revisions, nil
}

// Progress says that the collection had no change up to rv since the last one that was
// recorded. It does not block; the log learns of it later.
func (c *Collection) Progress(rv kube.ResourceVersion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.progress(rv)
}

// noteProgress records how far the collection has come, if the log does not know.
func (c *Collection) noteProgress(ctx context.Context) error {
	c.mu.Lock()
	through := c.positions.through
	known := c.positions.torn || through <= max(c.noted, c.positions.lastChange())
	c.mu.Unlock()
	if known {
		return nil
	}
	if _, err := c.log.Append(ctx, []revlog.Write{c.mark(markProgress, through)}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted = through
	return nil
}

// Reached is the resourceVersion up to which every change is recorded; 0 before the first
// Replace.
func (c *Collection) Reached() kube.ResourceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.through
}

// Torn reports that a Replace was cut off: the recorded state is none that the other server
// had, and has to be replaced.
func (c *Collection) Torn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.torn
}

// Wait blocks until everything up to rv is recorded, or returns ctx's cause.
func (c *Collection) Wait(ctx context.Context, rv kube.ResourceVersion) error {
	for {
		c.mu.Lock()
		reached, moved := c.positions.through >= rv, c.positions.wait()
		c.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ReasonUnseen is the reason in a kube.ExpiredError for a resourceVersion inside a hole.
const ReasonUnseen = "unseen"

// Position returns the position at which the state is that of the other server at rv. Errors:
// *kube.ExpiredError of the given kind if there is none, because rv is in a hole, older than what
// is recorded, or of a former history; *kube.TooLargeResourceVersionError if rv is ahead.
func (c *Collection) Position(rv kube.ResourceVersion, kind kube.ExpiredKind) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.positions
	if rv > p.through {
		if rv <= c.before {
			return 0, &kube.ExpiredError{Requested: rv, Oldest: p.through, Reason: kube.ReasonReplaced, Kind: kind}
		}
		return 0, &kube.TooLargeResourceVersionError{Requested: rv, Current: p.through}
	}
	if h, in := p.hole(rv); in {
		reason := ReasonUnseen
		if h.from == 0 && c.before > 0 {
			reason = kube.ReasonReplaced
		}
		return 0, &kube.ExpiredError{Requested: rv, Oldest: h.to, Reason: reason, Kind: kind}
	}
	at, found := p.at(rv)
	if !found {
		return 0, &kube.ExpiredError{Requested: rv, Oldest: p.oldest(), Kind: kind}
	}
	return at, nil
}

// Version returns the resourceVersion of the state at a position. Within a Replace it is that of
// the state before, at which a reader can begin again without missing anything.
func (c *Collection) Version(position int64) kube.ResourceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.version(position)
}

// versionOf returns the resourceVersion of the deletion at a position.
func (c *Collection) versionOf(position int64) kube.ResourceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.versionOf(position)
}

// Newest is the newest position at which the state is one of the other server; 0 before the
// first Replace.
func (c *Collection) Newest() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.newest()
}

// trim drops the positions before a floor of the log, which nobody can ask for.
func (c *Collection) trim(floor int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.trim(floor)
}

// Oldest is the oldest resourceVersion that has a position at or after a floor of the log.
func (c *Collection) Oldest(floor int64) kube.ResourceVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.positions.from(floor)
}
