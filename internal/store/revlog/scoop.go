package revlog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// scooped is what a feed took from the index: the changes of the next batch as
// versions, with those they replaced.
type scooped struct {
	set       *segmentSet // nil when there is nothing yet: wait for wake
	wake      chan struct{}
	through   int64
	compacted int64
	chosen    []index.Change
	known     []int    // their bytes if the reader knows them, or unknown; nil: all unknown
	news      []wanted // the versions of those that are not known
	previous  []int    // position in olds of what news[i] replaced, -1 for nothing
	olds      []wanted
	bytes     int // of the records of news and olds
	newBytes  int // of those of news, and of the known changes
}

// unknown is in place of the bytes of a change that the reader does not know.
const unknown = -1

// scoop takes the next batch from the index. It looks for the feed's keys without
// holding up the sequencer.
func (k *feed) scoop() (scooped, error) {
	s, changes, err := k.begin()
	if err != nil || s.set != nil || s.through <= k.after {
		return s, err
	}
	k.choose(&s, changes)
	return s, k.locate(&s)
}

// begin returns how far the batch can go, and the changes from which it is chosen. With a
// set it is a batch already: one without changes that says that history was compacted.
func (k *feed) begin() (scooped, []index.Change, error) {
	l := k.log
	l.mu.Lock()
	defer l.mu.Unlock()
	s := scooped{wake: l.wake, through: l.current, compacted: l.compacted.Revision}
	if err := l.checkLocked(k.span, k.after); err != nil {
		return s, nil, err
	}
	if k.from.UpTo != 0 {
		s.through = min(s.through, k.from.UpTo)
	}
	if s.through <= k.after {
		if k.from.Hold && s.compacted > k.compacted {
			s.through, s.set = k.after, l.segments.hold()
		}
		return s, nil, nil
	}
	return s, k.changesLocked(), nil
}

// most is how many changes a batch has at most.
func (k *feed) most() int {
	if k.from.Limit > 0 {
		return min(maxBatchChanges, k.from.Limit)
	}
	return maxBatchChanges
}

// choose takes those of the next changes that are the feed's, and moves the end of the
// batch before the first that it leaves out.
func (k *feed) choose(s *scooped, changes []index.Change) {
	most := k.most()
	s.chosen = make([]index.Change, 0, min(most, len(changes)))
	for scanned, c := range changes {
		if c.Revision > s.through {
			break
		}
		if len(s.chosen) == most || scanned == maxScan {
			s.through = c.Revision - 1
			break
		}
		if strings.HasPrefix(c.Key, k.from.Prefix) && (k.from.Match == nil || k.from.Match(c.Key)) {
			s.chosen = append(s.chosen, c)
		}
	}
	if k.from.Known == nil {
		return
	}
	s.known = make([]int, len(s.chosen))
	for i, c := range s.chosen {
		bytes, known := k.from.Known(c.Key, c.Revision)
		if s.known[i] = bytes; !known {
			s.known[i] = unknown
		}
	}
}

// isKnown reports whether the reader has the i-th chosen change.
func (s *scooped) isKnown(i int) bool { return s.known != nil && s.known[i] != unknown }

// locate takes as many of the chosen changes as the bounds in bytes allow, with the versions
// of those that are not known, and leaves out what follows.
func (k *feed) locate(s *scooped) error {
	l := k.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkLocked(k.span, k.after); err != nil {
		return err // compacted since they were chosen
	}
	for i, c := range s.chosen {
		fits, err := k.take(s, i)
		if err != nil {
			return err
		}
		if !fits {
			s.through, s.chosen = c.Revision-1, s.chosen[:i]
			break
		}
	}
	s.set = l.segments.hold()
	return nil
}

// take adds the i-th chosen change, if there is room for it. The first always fits.
func (k *feed) take(s *scooped, i int) (fits bool, err error) {
	if s.isKnown(i) {
		return s.fits(i, s.known[i], k.from.MaxBytes), nil
	}
	l, c := k.log, s.chosen[i]
	h, _ := l.index.Keys.Get(c.Key)
	at := h.At(c.Revision)
	if at < 0 || h.Versions[at].Revision != c.Revision || c.Supersedes && at == 0 {
		return false, fmt.Errorf("change %d of %q is missing in the index", c.Revision, c.Key) // the floor was checked: a bug
	}
	v := h.Versions[at]
	if !s.fits(i, int(v.Size), k.from.MaxBytes) {
		return false, nil
	}
	s.news = append(s.news, wanted{key: h.Key, version: v, value: l.values.Get(v.Revision)})
	s.bytes += int(v.Size)
	place := -1
	if c.Supersedes {
		old := h.Versions[at-1]
		place = len(s.olds)
		s.olds = append(s.olds, wanted{key: h.Key, version: old, value: l.values.Get(old.Revision)})
		s.bytes += int(old.Size)
	}
	s.previous = append(s.previous, place)
	return true, nil
}

// fits reports whether the i-th change has room, and counts its bytes if it has.
func (s *scooped) fits(i, bytes, maxBytes int) bool {
	if i > 0 && (s.bytes >= maxBatchBytes || maxBytes > 0 && s.newBytes+bytes > maxBytes) {
		return false
	}
	s.newBytes += bytes
	return true
}

// changesLocked returns the next changes of the feed's resource or key, or of all
// resources: at least as many as a batch takes, unless there are fewer.
func (k *feed) changesLocked() []index.Change {
	switch {
	case k.from.Key != "":
		h, _ := k.log.index.Keys.Get(k.from.Key)
		return h.Changes(k.after, k.most()+1)
	case k.from.Prefix != "":
		if r := k.log.index.Resources[store.ResourceOf(k.from.Prefix)]; r != nil {
			return r.After(k.after)
		}
		return nil
	}
	var merged []index.Change
	for name, r := range k.log.index.Resources {
		if name == k.log.opts.Apart {
			continue
		}
		next := r.After(k.after)
		merged = append(merged, next[:min(len(next), maxBatchChanges+1)]...)
	}
	slices.SortFunc(merged, index.ByRevision)
	return merged[:min(len(merged), maxBatchChanges+1)]
}

// read reads the values of the scooped changes.
func (k *feed) read(ctx context.Context, s scooped) ([]store.Change, error) {
	if len(s.chosen) == 0 {
		return nil, nil
	}
	changes, records := s.changes()
	unread := make([]*wanted, 0, len(s.news)+len(s.olds))
	want := func(w *wanted, wants bool) {
		switch {
		case !wants || w.version.Deleted:
			w.value = nil
		case w.value == nil:
			unread = append(unread, w)
		}
	}
	n := 0 // in news
	for i := range changes {
		if s.isKnown(i) {
			continue
		}
		value, previous := true, true
		if k.from.Want != nil {
			value, previous = k.from.Want(changes[i])
		}
		want(&s.news[n], value)
		if place := s.previous[n]; place >= 0 {
			want(&s.olds[place], previous)
		}
		n++
	}
	if err := k.load(ctx, s.set, unread); err != nil {
		return nil, err
	}
	n = 0
	for i := range changes {
		if !s.isKnown(i) {
			changes[i].Value = s.news[n].value
			n++
		}
	}
	for i := range records {
		records[i].Value = s.olds[i].value
	}
	return changes, nil
}

// changes returns the changes without their values, and the records that they replaced,
// to which they point.
func (s *scooped) changes() ([]store.Change, []store.Record) {
	records := make([]store.Record, len(s.olds))
	for i, w := range s.olds {
		records[i] = w.version.Record(w.key, nil)
	}
	changes := make([]store.Change, len(s.chosen))
	n := 0 // in news
	for i, c := range s.chosen {
		changes[i] = store.Change{Revision: c.Revision, Key: c.Key}
		if s.isKnown(i) {
			continue
		}
		w := s.news[n]
		changes[i].Deleted, changes[i].Time = w.version.Deleted, time.UnixMilli(w.version.Millis)
		if place := s.previous[n]; place >= 0 {
			changes[i].Previous = &records[place]
		}
		n++
	}
	return changes, records
}

// load reads values from the segments.
func (k *feed) load(ctx context.Context, set *segmentSet, unread []*wanted) error {
	from := k.log.loader(set)
	if k.from.Buffer == nil {
		return from.read(ctx, unread)
	}
	k.from.Buffer.Reset()
	return from.readInto(ctx, unread, placement{take: k.from.Buffer.Take, gap: feedGap})
}
