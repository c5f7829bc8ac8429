package watchcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
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

// ErrDeltaTooLarge is returned by Since when reading the changes would cost more
// than reading the state.
var ErrDeltaTooLarge = errors.New("too much has changed for a delta")

// Since returns the events that turn the selection's state at rv into its state in s:
// one event for each key whose state differs in the selection, in the order of their
// resourceVersions. Added and Modified
// have the object of s; Deleted has the last content, as a watcher that had
// followed would have seen it, and also precedes the Added of a new object with
// the same name (another uid). It blocks while History
// reads. Errors: ErrDeltaTooLarge, *kube.ExpiredError when history does not go back
// to rv, ctx's cause, and errors of History.
func (c *Cache) Since(ctx context.Context, rv kube.ResourceVersion, s *Snapshot, sel Selection) ([]wire.WatchEvent, error) {
	if err := c.check(ctx, rv, kube.ExpiredWatch); err != nil {
		return nil, err
	}
	d := &delta{sel: sel, to: s, keys: map[string]*changed{}, entries: max(maxDeltaEntries, deltaEntriesPerObject*s.Len())}
	pos := rv
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
		entries, through, err := c.read(ctx, Range{After: pos, Since: rv, UpTo: min(st.log.gone, s.rv), Selection: &sel})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if err := d.consider(e); err != nil {
				return nil, err
			}
		}
		pos = through
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
			k.uid = e.before().UID()
		}
		d.keys[key] = k
	}
	k.is = t != kube.Deleted
	if k.was && t == kube.Deleted && e.before().UID() == k.uid {
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
func (d *delta) events() ([]wire.WatchEvent, error) {
	var events []wire.WatchEvent
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
			events = append(events, wire.WatchEvent{Type: t, ResourceVersion: o.ResourceVersion(), Object: o})
		}
		if k.was && t != kube.Modified {
			events = append(events, k.left.event(kube.Deleted, &Selection{}))
		}
	}
	slices.SortFunc(events, func(a, b wire.WatchEvent) int {
		if order := cmp.Compare(a.ResourceVersion, b.ResourceVersion); order != 0 {
			return order
		}
		return cmp.Compare(a.Object.Key().String(), b.Object.Key().String())
	})
	return events, nil
}
