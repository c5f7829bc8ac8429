package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Change is one change of an object.
type Change struct {
	Key wire.Key
	// RV is the resourceVersion of the change. A deletion of Replace has none.
	RV kube.ResourceVersion
	// Object is the object's JSON after the change; nil: it was deleted.
	Object []byte
}

var (
	// ErrOrder says that changes are not in the order of their resourceVersions: they are not of
	// one history.
	ErrOrder = errors.New("the changes are not in the order of their resourceVersions")
	// ErrTorn says that a Replace was cut off, and has to be done first.
	ErrTorn = errors.New("a replacement of the state was cut off")
	// ErrReleased says that the collection was given back, or has a successor.
	ErrReleased = errors.New("the collection was released")
)

// Append records changes that follow what was recorded before, and that the collection had no
// other ones up to through. Changes at one resourceVersion come in one call. It returns the
// position after each change. The deletion of an object that the collection does not have
// changes nothing.
//
// Errors: ErrOrder, ErrTorn and ErrReleased, with nothing recorded; those of the log, after
// which the changes are recorded of which a position is returned: the source continues after
// Reached.
func (c *Collection) Append(ctx context.Context, changes []Change, through kube.ResourceVersion) ([]int64, error) {
	release, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.checkAppend(changes); err != nil {
		return nil, err
	}
	after := make([]int64, 0, len(changes))
	begun := context.WithoutCancel(ctx) // like the log: not a part of the changes
	for rest := changes; len(rest) > 0; ctx = begun {
		n, deleting := batch(rest)
		positions, err := c.appendBatch(ctx, rest[:n], deleting)
		after = append(after, positions...)
		if err != nil {
			return after, err
		}
		rest = rest[n:]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.progress(through)
	return after, nil
}

func (c *Collection) checkAppend(changes []Change) error {
	if c.Torn() {
		return fmt.Errorf("append to %s: %w", c.name, ErrTorn)
	}
	reached := c.Reached()
	for i, change := range changes {
		// Everything up to Reached was promised to be there.
		if change.RV < reached || i == 0 && change.RV == reached {
			return fmt.Errorf("%s at %d after %d: %w", change.Key, change.RV, reached, ErrOrder)
		}
		reached = change.RV
	}
	return nil
}

// batch returns how many changes can be recorded at once, and their deletions: readers who see
// a deletion before its position is known tell it by its key.
func batch(changes []Change) (n int, deleting map[wire.Key]kube.ResourceVersion) {
	deleting = map[wire.Key]kube.ResourceVersion{}
	first := 0 // of those at the same resourceVersion
	for i, change := range changes {
		if change.RV != changes[first].RV {
			first = i
		}
		if change.Object != nil {
			continue
		}
		if rv, is := deleting[change.Key]; is && rv != change.RV {
			return first, deleting
		}
		deleting[change.Key] = change.RV
	}
	return len(changes), deleting
}

func (c *Collection) appendBatch(ctx context.Context, changes []Change,
	deleting map[wire.Key]kube.ResourceVersion,
) ([]int64, error) {
	writes := make([]revlog.Write, 0, len(changes)+len(deleting))
	for i, change := range changes {
		w := c.put(change)
		if change.Object == nil {
			w = c.remove(change.Key)
		}
		w.WithPrevious = i > 0 && change.RV == changes[i-1].RV
		writes = append(writes, w)
		if change.Object == nil {
			mark := c.mark(markDeletion, change.RV)
			mark.WithPrevious = true
			writes = append(writes, mark)
		}
	}
	c.setDeleting(deleting)
	revisions, err := c.log.Append(ctx, writes)
	if err != nil {
		err = fmt.Errorf("record changes of %s: %w", c.name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleting = nil
	after := make([]int64, 0, len(changes))
	at := 0
	for _, change := range changes {
		if at >= len(revisions) {
			break
		}
		revision := revisions[at]
		if change.Object == nil {
			at++ // its mark
			if revision == 0 {
				revision = revisions[at] // nothing was there: the state at RV is the one there
			}
		}
		at++
		c.positions.add(revision, change.RV)
		c.positions.progress(change.RV)
		after = append(after, revision)
	}
	return after, err
}

func (c *Collection) setDeleting(deletions map[wire.Key]kube.ResourceVersion) {
	keys := make(map[string]kube.ResourceVersion, len(deletions))
	for key, rv := range deletions {
		keys[c.keyOf(key)] = rv
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleting = keys
}

// Replaced is what Replace did.
type Replaced struct {
	// Changes are the positions of the deletions and of the changes, in the order in which
	// they were given; 0 for the deletion of an object that was not there. After is the
	// position at which the state is that of the other server.
	Changes []int64
	After   int64
	// Deleted is the resourceVersion that the deletions have.
	Deleted kube.ResourceVersion
}

// Replace records the difference between the recorded state and the other server's at rv, when
// the changes in between are not known. Deletions come first, and get the resourceVersion up to
// which everything was recorded, because all that is known is that they happened after it; the
// changes follow in the order of their resourceVersions. So a reader who was shown only some of
// them and goes on at the other server misses none. Between that resourceVersion and rv is a
// hole then.
//
// Errors: ErrOrder if the state cannot follow the recorded one, ErrReleased and
// *store.TooLargeError, with nothing recorded; those of the log, after which the collection is Torn, unless nothing was recorded.
func (c *Collection) Replace(ctx context.Context, deleted []wire.Key, changes []Change,
	rv kube.ResourceVersion,
) (Replaced, error) {
	release, err := c.begin(ctx)
	if err != nil {
		return Replaced{}, err
	}
	defer release()
	if err := c.checkReplace(len(deleted), changes, rv); err != nil {
		return Replaced{}, err
	}
	order := make([]int, len(changes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(changes[a].RV, changes[b].RV) })
	last := c.Reached()
	revisions, err := c.record(ctx, 1+len(deleted)+len(changes)+1, func(i int) revlog.Write {
		changed := i - 1 - len(deleted)
		switch {
		case i == 0:
			return c.mark(markBegin, last)
		case changed < 0:
			return c.remove(deleted[i-1])
		case changed < len(changes):
			w := c.put(changes[order[changed]])
			w.WithPrevious = changed > 0 && changes[order[changed]].RV == changes[order[changed-1]].RV
			return w
		}
		return c.mark(markEnd, rv)
	})
	if err != nil {
		if len(revisions) > 0 {
			c.tear()
		}
		return Replaced{}, fmt.Errorf("replace the state of %s: %w", c.name, err)
	}
	done := Replaced{Changes: make([]int64, len(deleted)+len(changes)), Deleted: last}
	copy(done.Changes, revisions[1:1+len(deleted)])
	for at, i := range order {
		done.Changes[len(deleted)+i] = revisions[1+len(deleted)+at]
	}
	if done.After = slices.Max(revisions[:len(revisions)-1]); done.After == revisions[0] {
		done.After = revisions[len(revisions)-1] // no change
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.replaced(hole{from: last, to: rv, rev: done.After})
	return done, nil
}

// recordAtOnce is how many writes are encoded at once: 100 000 objects of 2 KB would take 400 MB.
const recordAtOnce = 2048

// record appends n writes to the log. With an error, it returns the revisions of those that
// were applied.
func (c *Collection) record(ctx context.Context, n int, write func(i int) revlog.Write) ([]int64, error) {
	revisions := make([]int64, 0, n)
	for begun := context.WithoutCancel(ctx); len(revisions) < n; ctx = begun {
		writes := make([]revlog.Write, 0, min(n-len(revisions), recordAtOnce))
		for i := len(revisions); i < n; i++ {
			w := write(i)
			if len(writes) >= recordAtOnce && !w.WithPrevious {
				break
			}
			writes = append(writes, w)
		}
		applied, err := c.log.Append(ctx, writes)
		revisions = append(revisions, applied...)
		if err != nil {
			return revisions, err
		}
	}
	return revisions, nil
}

// checkReplace checks that a state at rv can follow the recorded one.
func (c *Collection) checkReplace(deletions int, changes []Change, rv kube.ResourceVersion) error {
	last := c.Reached()
	if rv < last || rv == 0 || rv == last && deletions+len(changes) > 0 && !c.Torn() {
		return fmt.Errorf("another state at %d after %d: %w", rv, last, ErrOrder)
	}
	for _, change := range changes {
		if change.RV <= last || change.RV > rv || change.Object == nil {
			return fmt.Errorf("%s at %d in the state at %d after %d: %w", change.Key, change.RV, rv, last, ErrOrder)
		}
		if n := versionBytes + len(change.Object); n > revlog.MaxValueBytes { // or the log would refuse it halfway
			return fmt.Errorf("replace the state of %s: %w", c.name, &store.TooLargeError{
				What: "value", Bytes: n, Limit: revlog.MaxValueBytes,
			})
		}
	}
	return nil
}

func (c *Collection) tear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.positions.torn = true
}

func (c *Collection) markKey() string { return ownPrefix(c.key) + "mark" }

func (c *Collection) progressKey() string { return ownPrefix(c.key) + "progress" }

func (c *Collection) mark(kind markKind, rv kube.ResourceVersion) revlog.Write {
	return revlog.Write{Key: c.markKey(), Value: encodeMark(kind, rv)}
}

func (c *Collection) put(change Change) revlog.Write {
	return revlog.Write{Key: c.keyOf(change.Key), Value: c.sealed(change.RV, change.Object)}
}

func (c *Collection) remove(key wire.Key) revlog.Write {
	return revlog.Write{Key: c.keyOf(key), Delete: true}
}

// noteProgress records how far the collection has come, if the log does not know and nothing
// else is being written.
func (c *Collection) noteProgress(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	default:
		return nil // the next time
	}
	c.mu.Lock()
	through := c.positions.through
	known := c.positions.torn || through <= max(c.noted, c.positions.lastChange())
	c.mu.Unlock()
	if known || c.ended {
		return nil
	}
	if _, err := c.log.Append(ctx, []revlog.Write{{Key: c.progressKey(), Value: encodeMark(markProgress, through)}}); err != nil {
		return err
	}
	c.noted = through
	return nil
}
