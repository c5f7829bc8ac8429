package revlog

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// Bounds of a batch. maxScan bounds how long the sequencer is held up by a feed
// of which the prefix matches few of its resource's changes.
const (
	maxBatchChanges = 1024
	maxBatchBytes   = 4 << 20
	maxScan         = 8192
)

// feed is a cursor: the position is all it has. History and live changes come
// through the same lookup, so there is no seam between them.
type feed struct {
	log  *Log
	from store.From
	span span
	done chan struct{} // closed by Close
	once sync.Once

	after int64 // every change up to here was delivered
}

// Changes implements store.Store.
func (l *Log) Changes(ctx context.Context, f store.From) (store.Feed, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if f.Prefix != "" && strings.IndexByte(f.Prefix, '/') < 1 || f.After < 0 || f.UpTo < 0 {
		return nil, fmt.Errorf("changes of %.100q after %d up to %d: %w", f.Prefix, f.After, f.UpTo, store.ErrInvalid)
	}
	k := &feed{log: l, from: f, after: f.After, done: make(chan struct{}), span: span{f.Prefix, store.PrefixEnd(f.Prefix)}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, store.ErrClosed
	}
	if err := l.index.check(k.span, f.After); err != nil {
		return nil, err
	}
	return k, nil
}

// Next implements store.Feed.
func (k *feed) Next(ctx context.Context) (store.Batch, error) {
	for {
		if ctx.Err() != nil {
			return store.Batch{}, context.Cause(ctx)
		}
		select {
		case <-k.done:
			return store.Batch{}, store.ErrClosed
		default:
		}
		if k.from.UpTo != 0 && k.after >= k.from.UpTo {
			return store.Batch{}, io.EOF
		}
		scoop, err := k.scoop()
		if err != nil {
			return store.Batch{}, err
		}
		if scoop.set == nil {
			select {
			case <-scoop.wake:
			case <-k.done:
			case <-ctx.Done():
			case <-k.log.closing:
				return store.Batch{}, store.ErrClosed
			}
			continue
		}
		changes, err := k.read(ctx, scoop)
		scoop.set.release(k.log)
		if err != nil {
			return store.Batch{}, err
		}
		k.after = scoop.through
		return store.Batch{Changes: changes, Through: scoop.through}, nil
	}
}

// Close implements store.Feed.
func (k *feed) Close() error {
	k.once.Do(func() { close(k.done) })
	return nil
}

// scooped is what a feed took from the index under the lock: the changes of the
// next batch as versions, with those they replaced.
type scooped struct {
	set      *segmentSet // nil when there is nothing yet: wait for wake
	wake     chan struct{}
	through  int64
	news     []wanted
	previous []int // position in olds of what news[i] replaced, -1 for nothing
	olds     []wanted
}

func (k *feed) scoop() (scooped, error) {
	l := k.log
	l.mu.Lock()
	defer l.mu.Unlock()
	s := scooped{wake: l.wake, through: l.current}
	if l.closed {
		return s, store.ErrClosed
	}
	if err := l.index.check(k.span, k.after); err != nil {
		return s, err
	}
	if k.from.UpTo != 0 {
		s.through = min(s.through, k.from.UpTo)
	}
	if s.through <= k.after {
		return s, nil
	}
	bytes, scanned := 0, 0
	for _, c := range k.changesLocked() {
		if c.revision > s.through {
			break
		}
		scanned++
		if len(s.news) == maxBatchChanges || bytes >= maxBatchBytes || scanned > maxScan {
			s.through = c.revision - 1
			break
		}
		if !strings.HasPrefix(c.key, k.from.Prefix) {
			continue
		}
		n, err := s.take(l, c)
		if err != nil {
			return s, err
		}
		bytes += n
	}
	s.set = l.segments.hold()
	return s, nil
}

// take adds change c, and returns how many bytes it has to read at most.
func (s *scooped) take(l *Log, c change) (int, error) {
	h, _ := l.index.keys.Get(c.key)
	i := h.at(c.revision)
	if i < 0 || h.versions[i].revision != c.revision || c.supersedes && i == 0 {
		return 0, fmt.Errorf("change %d of %q is missing in the index", c.revision, c.key) // the floor was checked: a bug
	}
	v := h.versions[i]
	s.news = append(s.news, wanted{key: h.key, version: v, value: l.values.get(v.revision)})
	bytes := int(v.size)
	place := -1
	if c.supersedes {
		old := h.versions[i-1]
		place = len(s.olds)
		s.olds = append(s.olds, wanted{key: h.key, version: old, value: l.values.get(old.revision)})
		bytes += int(old.size)
	}
	s.previous = append(s.previous, place)
	return bytes, nil
}

// changesLocked returns the next changes of the feed's resource, or of all of
// them: at least as many as a batch takes, unless there are fewer.
func (k *feed) changesLocked() []change {
	if k.from.Prefix != "" {
		if r := k.log.index.resources[store.ResourceOf(k.from.Prefix)]; r != nil {
			return r.after(k.after)
		}
		return nil
	}
	var merged []change
	for _, r := range k.log.index.resources {
		next := r.after(k.after)
		merged = append(merged, next[:min(len(next), maxBatchChanges+1)]...)
	}
	slices.SortFunc(merged, byRevision)
	return merged[:min(len(merged), maxBatchChanges+1)]
}

// read makes the batch of what was scooped.
func (k *feed) read(ctx context.Context, s scooped) ([]store.Change, error) {
	if len(s.news) == 0 {
		return nil, nil
	}
	all := slices.Concat(s.news, s.olds)
	missing := make([]wanted, 0, len(all))
	for _, w := range all {
		if w.value == nil && !w.version.deleted {
			missing = append(missing, w)
		}
	}
	if err := s.set.load(ctx, k.log.fs.Dir().Path(), missing); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].value == nil && !all[i].version.deleted {
			all[i].value, missing = missing[0].value, missing[1:]
		}
	}
	news, olds := all[:len(s.news)], all[len(s.news):]
	records := make([]store.Record, len(olds))
	for i, w := range olds {
		records[i] = w.version.record(w.key, w.value)
	}
	changes := make([]store.Change, len(news))
	for i, w := range news {
		c := store.Change{
			Revision: w.version.revision, Key: w.key, Value: w.value,
			Deleted: w.version.deleted, Time: time.UnixMilli(w.version.millis),
		}
		if c.Deleted {
			c.Value = nil
		}
		if place := s.previous[i]; place >= 0 {
			c.Previous = &records[place]
		}
		changes[i] = c
	}
	return changes, nil
}
