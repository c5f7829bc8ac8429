package watchcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// Bounds of a delta. Behind them the whole state is the cheaper answer.
const (
	// maxDeltaEntries is how many changes are read for a delta at least, and
	// deltaEntriesPerObject how many for each object of the resource.
	maxDeltaEntries       = 1 << 16
	deltaEntriesPerObject = 4
	// maxDeltaBytes bounds the last contents of deleted objects, which a delta holds
	// until they are sent; the others are in the snapshot anyway.
	maxDeltaBytes = 64 << 20
)

// ErrDeltaTooLarge is returned by Since when reading what changed would cost more
// than the state does.
var ErrDeltaTooLarge = errors.New("too much has changed for a delta")

// Since returns what a watcher that knows the selection as it was at rv must be
// told to know it as it is in s: one event for each key of which the selection
// sees another state, in the order of their resourceVersions. Added and Modified
// have the object of s; Deleted has the last content, as a watcher that had
// followed would have seen it, and stands also before the Added of an object that
// took the place (another uid). Previous is not set. It blocks while History
// reads. Errors: ErrDeltaTooLarge, *kube.ExpiredError when history does not go back
// to rv, ctx's cause, and what History returns.
func (c *Cache) Since(ctx context.Context, rv kube.ResourceVersion, s *Snapshot, sel Selection) ([]kube.WatchEvent, error) {
	d := &delta{sel: sel, to: s, keys: map[string]*changed{}, entries: max(maxDeltaEntries, deltaEntriesPerObject*s.Len())}
	pos, perRead := rv, 4*minHistoryEntries
	for pos < s.rv {
		st := c.state.Load()
		if pos >= st.log.gone {
			for e := range st.log.after(pos) {
				if e.RV > s.rv {
					break
				}
				if err := d.consider(e); err != nil {
					return nil, err
				}
			}
			break
		}
		c.behind.Add(1)
		upTo := min(st.log.gone, s.rv)
		entries, through, err := c.history.Entries(ctx, pos, upTo, perRead)
		if err != nil {
			return nil, err
		}
		if through <= pos {
			return nil, fmt.Errorf("history between %d and %d makes no progress", pos, upTo)
		}
		bytes := int64(0)
		for _, e := range entries {
			bytes += e.size()
			if err := d.consider(e); err != nil {
				return nil, err
			}
		}
		pos = min(through, upTo)
		if bytes <= maxBatchBytes {
			perRead = min(2*perRead, maxHistoryEntries)
		} else {
			perRead = max(perRead/2, minHistoryEntries)
		}
	}
	return d.events()
}

// delta is what changed between two states of a selection.
type delta struct {
	sel     Selection
	to      *Snapshot
	keys    map[string]*changed
	entries int   // how many more may be considered
	bytes   int64 // of what the deletions hold
}

// changed is what became of one key.
type changed struct {
	was bool      // the selection had it at the beginning
	is  bool      // and has it at the end
	uid types.UID // of the object that was
	// left is the last change by which that object left the selection.
	left *Entry
}

// consider takes note of the next change. Errors: ErrDeltaTooLarge.
func (d *delta) consider(e *Entry) error {
	if d.entries--; d.entries < 0 {
		return ErrDeltaTooLarge
	}
	t := d.sel.transition(e)
	if t == 0 {
		return nil
	}
	key := e.Object.Key().String()
	k := d.keys[key]
	if k == nil {
		k = &changed{was: t != kube.Added}
		if k.was {
			k.uid = e.Previous.UID()
		}
		d.keys[key] = k
	}
	k.is = t != kube.Deleted
	if k.was && t == kube.Deleted && e.Previous.UID() == k.uid {
		if k.left == nil {
			d.bytes += e.size()
		}
		k.left = e
	}
	if d.bytes > maxDeltaBytes {
		return ErrDeltaTooLarge
	}
	return nil
}

// events returns the delta once everything was considered.
func (d *delta) events() ([]kube.WatchEvent, error) {
	var events []kube.WatchEvent
	for key, k := range d.keys {
		t := kube.Added
		if k.is {
			o, found := d.to.tree.Get(key)
			if !found {
				return nil, fmt.Errorf("%s changed up to %d, but is not in the state there", key, d.to.rv)
			}
			if k.was && o.UID() == k.uid {
				t = kube.Modified
			}
			events = append(events, kube.WatchEvent{Type: t, ResourceVersion: o.ResourceVersion(), Object: o})
		}
		if k.was && t != kube.Modified {
			events = append(events, k.left.end())
		}
	}
	slices.SortFunc(events, func(a, b kube.WatchEvent) int { return cmp.Compare(a.ResourceVersion, b.ResourceVersion) })
	return events, nil
}

// end is the entry as the end of an object for who saw it.
func (e *Entry) end() kube.WatchEvent {
	event := e.event(kube.Deleted, "")
	event.Previous = nil
	return event
}
