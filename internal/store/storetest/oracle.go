package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/store"
)

// Oracle is the list of every write to a store, and computes from it what the
// store must answer. The zero Oracle has no writes.
type Oracle struct {
	changes   []store.Change // Time is not kept
	compacted int64
	every     int64 // the floor of every resource
	holes     []store.Hole
	created   map[version]int64 // the CreateRevision of what a hole has the last version of only
}

// version is one version of a key.
type version struct {
	key      string
	revision int64
}

// Add notes that t was committed at revision.
func (o *Oracle) Add(revision int64, t store.Txn) {
	c := store.Change{Revision: revision, Key: t.Key, Deleted: t.Delete}
	if !t.Delete {
		c.Value = slices.Clone(t.Value)
		if c.Value == nil {
			c.Value = []byte{}
		}
	}
	if old := o.state(noLimit, t.Key, ""); len(old) > 0 {
		c.Previous = &old[0]
	}
	o.changes = append(o.changes, c)
}

// AddTogether notes that others committed several writes at one revision.
func (o *Oracle) AddTogether(revision int64, txns ...store.Txn) {
	for _, deletes := range []bool{true, false} { // the order that Batch promises
		for _, t := range txns {
			if t.Delete == deletes {
				o.Add(revision, t)
			}
		}
	}
	for i := len(o.changes) - len(txns); i < len(o.changes); i++ {
		o.changes[i].Shared = len(txns) > 1 && o.changes[i].Deleted
	}
}

// Miss notes that the store has not seen the writes after h.From: it has their difference.
func (o *Oracle) Miss(h store.Hole) {
	seen := slices.IndexFunc(o.changes, func(c store.Change) bool { return c.Revision > h.From })
	if seen < 0 {
		seen = len(o.changes)
	}
	before, after := byKey(o.state(h.From, "", noEnd)), byKey(o.state(h.To, "", noEnd))
	var deletions, puts []store.Change
	for key, was := range before {
		if is, lives := after[key]; !lives || is.CreateRevision != was.CreateRevision {
			deletions = append(deletions, store.Change{
				Revision: h.From + 1, Key: key, Deleted: true, Shared: true, Previous: &was,
			})
		}
	}
	slices.SortFunc(deletions, func(a, b store.Change) int { return strings.Compare(a.Key, b.Key) })
	for _, c := range o.changes[seen:] {
		is, lives := after[c.Key]
		if !lives || is.ModRevision != c.Revision {
			continue
		}
		c.Previous = nil
		if was, lived := before[c.Key]; lived && was.CreateRevision == is.CreateRevision {
			c.Previous = &was
		}
		if o.created == nil {
			o.created = map[version]int64{}
		}
		o.created[version{c.Key, c.Revision}] = is.CreateRevision
		puts = append(puts, c)
	}
	o.changes = slices.Concat(o.changes[:seen], deletions, puts)
	o.holes = append(o.holes, h)
}

func byKey(records []store.Record) map[string]store.Record {
	all := map[string]store.Record{}
	for _, r := range records {
		all[r.Key] = r
	}
	return all
}

// hole returns the hole that a revision is inside of, nil if it is in none.
func (o *Oracle) hole(revision int64) *store.Hole {
	for _, h := range o.holes {
		if h.Has(revision) {
			return &h
		}
	}
	return nil
}

// latest is the newest revision.
func (o *Oracle) latest() int64 {
	latest := int64(0)
	if n := len(o.changes); n > 0 {
		latest = o.changes[n-1].Revision
	}
	for _, h := range o.holes {
		latest = max(latest, h.To)
	}
	return latest
}

// Compact notes that history up to upTo is compacted.
func (o *Oracle) Compact(upTo int64) { o.compacted = max(o.compacted, upTo) }

// CompactEvery notes the same for every resource.
func (o *Oracle) CompactEvery(upTo int64) {
	o.Compact(upTo)
	o.every = max(o.every, upTo)
}

// Revisions returns the revisions of all writes, in order, each once.
func (o *Oracle) Revisions() []int64 {
	revisions := make([]int64, len(o.changes))
	for i, c := range o.changes {
		revisions[i] = c.Revision
	}
	return slices.Compact(revisions)
}

// Current returns the mod revision of key, 0 if it does not exist.
func (o *Oracle) Current(key string) int64 {
	for _, c := range slices.Backward(o.changes) {
		if c.Key == key {
			if c.Deleted {
				return 0
			}
			return c.Revision
		}
	}
	return 0
}

const (
	noLimit = int64(1<<63 - 1)
	noEnd   = "\xff"
)

// state returns the records of a range at a revision, by key.
func (o *Oracle) state(revision int64, start, end string) []store.Record {
	byKey := map[string]store.Record{}
	for _, c := range o.changes {
		if c.Revision > revision || c.Key < start || end == "" && c.Key != start || end != "" && c.Key >= end {
			continue
		}
		if c.Deleted {
			delete(byKey, c.Key)
			continue
		}
		r := store.Record{Key: c.Key, Value: c.Value, ModRevision: c.Revision, CreateRevision: c.Revision}
		if created, missed := o.created[version{c.Key, c.Revision}]; missed {
			r.CreateRevision = created
		} else if old, ok := byKey[c.Key]; ok {
			r.CreateRevision = old.CreateRevision
		}
		byKey[c.Key] = r
	}
	records := []store.Record{}
	for _, r := range byKey {
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b store.Record) int { return strings.Compare(a.Key, b.Key) })
	return records
}

// after returns the changes of a prefix in (after, upTo].
func (o *Oracle) after(prefix string, after, upTo int64) []store.Change {
	changes := []store.Change{}
	for _, c := range o.changes {
		if c.Revision > after && c.Revision <= upTo && strings.HasPrefix(c.Key, prefix) {
			changes = append(changes, c)
		}
	}
	return changes
}

// floor is the rule of expiry: the highest revision at or below the compaction
// at which a write to the prefix's resource replaced or deleted something, or that of every
// resource.
func (o *Oracle) floor(prefix string) int64 {
	resource := store.ResourceOf(prefix)
	floor := o.every
	for _, c := range o.changes {
		if c.Revision > floor && c.Revision <= o.compacted && c.Previous != nil &&
			(prefix == "" || store.ResourceOf(c.Key) == resource) {
			floor = c.Revision
		}
	}
	return floor
}

// Compare asks the store for every past state and every feed, and
// returns the first difference.
func (o *Oracle) Compare(ctx context.Context, s store.Store) error {
	return o.CompareAt(ctx, s, o.Revisions())
}

// CompareAt is Compare at some revisions only.
func (o *Oracle) CompareAt(ctx context.Context, s store.Store, revisions []int64) error {
	current, err := s.Progress(ctx)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if len(o.changes) > 0 && current != o.latest() {
		return fmt.Errorf("the store is at revision %d, want %d", current, o.latest())
	}
	prefixes := []string{""}
	for _, c := range o.changes {
		if p := store.ResourceOf(c.Key) + "/"; !slices.Contains(prefixes, p) {
			prefixes = append(prefixes, p)
		}
	}
	for _, prefix := range prefixes {
		for _, revision := range revisions {
			if err := o.compareAt(ctx, s, prefix, store.From{Prefix: prefix, After: revision, UpTo: current}); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareAt compares the state at from.After and the changes since.
func (o *Oracle) compareAt(ctx context.Context, s store.Store, prefix string, from store.From) error {
	page, readErr := s.Read(ctx, store.Query{Start: prefix, End: store.PrefixEnd(prefix), AtRevision: from.After})
	changes, feedErr := Collect(ctx, s, from)
	if h := o.hole(from.After); h != nil {
		for _, err := range []error{readErr, feedErr} {
			compacted, ok := errors.AsType[*store.CompactedError](err)
			unseen := ok && compacted.Reason == store.ReasonUnseen && compacted.Floor == h.To
			if !unseen && from.After >= o.floor(prefix) || !ok || compacted.Requested != from.After {
				return fmt.Errorf("%q at %d inside %+v: got %w", prefix, from.After, *h, err)
			}
		}
		return nil
	}
	if floor := o.floor(prefix); from.After < floor {
		for _, err := range []error{readErr, feedErr} {
			compacted, ok := errors.AsType[*store.CompactedError](err)
			if !ok || compacted.Floor != floor || compacted.Requested != from.After {
				return fmt.Errorf("%q at %d below floor %d: got %w", prefix, from.After, floor, err)
			}
		}
		return nil
	}
	if err := errors.Join(readErr, feedErr); err != nil {
		return fmt.Errorf("%q at %d: %w", prefix, from.After, err)
	}
	end := store.PrefixEnd(prefix)
	if diff := cmp.Diff(o.state(from.After, prefix, end), page.Records, untimed()); diff != "" {
		return fmt.Errorf("state of %q at %d (-want +got):\n%s", prefix, from.After, diff)
	}
	if diff := cmp.Diff(o.after(prefix, from.After, from.UpTo), changes, untimed()); diff != "" {
		return fmt.Errorf("changes of %q after %d (-want +got):\n%s", prefix, from.After, diff)
	}
	return nil
}

// Collect reads a feed that has an end, and checks what holds for every feed:
// that each batch continues where the last one ended.
func Collect(ctx context.Context, s store.Store, from store.From) ([]store.Change, error) {
	feed, err := s.Changes(ctx, from)
	if err != nil {
		return nil, err
	}
	changes, err := drain(ctx, feed, from)
	return changes, errors.Join(err, feed.Close())
}

func drain(ctx context.Context, feed store.Changes, from store.From) ([]store.Change, error) {
	changes := []store.Change{}
	through := from.After
	for {
		batch, err := feed.Next(ctx)
		if errors.Is(err, io.EOF) {
			if through < from.UpTo {
				return nil, fmt.Errorf("feed ends through %d before %d", through, from.UpTo)
			}
			return changes, nil
		}
		if err != nil {
			return nil, err
		}
		if err := checkBatch(batch, through, from); err != nil {
			return nil, err
		}
		through = batch.Through
		changes = append(changes, batch.Changes...)
	}
}

func checkBatch(batch store.Batch, through int64, from store.From) error {
	last := store.Change{Revision: through}
	for i, c := range batch.Changes {
		switch {
		case c.Revision < last.Revision || c.Revision == last.Revision && (i == 0 || c.Key == last.Key):
			return fmt.Errorf("revision %d is delivered after %d", c.Revision, last.Revision)
		case c.Revision == last.Revision && (c.Deleted && !c.Shared || last.Deleted && !last.Shared):
			return fmt.Errorf("%q and %q change at %d, but no deletion says so", last.Key, c.Key, c.Revision)
		case c.Revision == last.Revision && c.Deleted && !last.Deleted:
			return fmt.Errorf("the deletion of %q at %d comes after a put of %q", c.Key, c.Revision, last.Key)
		case c.Revision > batch.Through || from.UpTo != 0 && c.Revision > from.UpTo:
			return fmt.Errorf("revision %d is delivered in a batch through %d, up to %d", c.Revision, batch.Through, from.UpTo)
		case !strings.HasPrefix(c.Key, from.Prefix), from.Key != "" && c.Key != from.Key:
			return fmt.Errorf("key %q is delivered for %q", c.Key, from.Prefix+from.Key)
		case c.Time.IsZero():
			return fmt.Errorf("revision %d has no time", c.Revision)
		case c.Deleted != (c.Value == nil):
			return fmt.Errorf("revision %d: deleted is %v and the value %q", c.Revision, c.Deleted, c.Value)
		}
		last = c
	}
	for _, h := range batch.Holes {
		if h.From >= batch.Through || h.To <= through {
			return fmt.Errorf("a batch from %d to %d is about the hole %+v", through, batch.Through, h)
		}
		if h.Has(batch.Through) && batch.Through != from.UpTo && (len(batch.Changes) == 0 || last.Revision != batch.Through) {
			return fmt.Errorf("a batch ends at %d inside the hole %+v, and not with a change", batch.Through, h)
		}
	}
	if batch.Through <= through {
		return fmt.Errorf("a batch through %d follows one through %d", batch.Through, through)
	}
	return nil
}

// untimed compares records and changes without the times of their writes, which
// the oracle does not know, and values as a whole.
func untimed() cmp.Option {
	return cmp.Options{
		cmp.FilterPath(func(p cmp.Path) bool {
			return p.Last().Type() == reflect.TypeFor[time.Time]()
		}, cmp.Ignore()),
		cmp.Comparer(bytes.Equal),
	}
}
