package etcd

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

// event is one change of an object in etcd.
type event struct {
	key         string // of the store
	mod, create int64
	value       []byte // as it is in etcd
	deleted     bool
}

const (
	// groupBytes bounds what is bound together in the log, which takes a record of the largest size.
	groupBytes = revlog.MaxValueBytes - 256<<10
	// appendBytes is how much is recorded at once, unless one revision has more.
	appendBytes = 4 << 20
	// appendWrites is how many changes are recorded at once.
	appendWrites = 2048
	// recordBytes is more than what a record has beside key and value.
	recordBytes = 128
)

func (e event) bytes() int { return len(e.key) + headBytes + len(e.value) + recordBytes }

func (e event) write() revlog.Write {
	if e.deleted {
		return revlog.Write{Key: e.key, Delete: true}
	}
	return revlog.Write{Key: e.key, Value: encodeObject(e.mod, e.create, e.value)}
}

// soon returns what has arrived, or arrives while everything that can run has run once: where writers and watchers wait
// for the processor, many changes cost hardly more than one. An idle server does not wait.
func soon(responses clientv3.WatchChan) (r clientv3.WatchResponse, open bool) {
	select {
	case r, open = <-responses:
		return r, open
	default:
	}
	runtime.Gosched()
	select {
	case r, open = <-responses:
	default:
	}
	return r, open
}

// record appends events in their order, and that there were no other ones up to through. Events at
// one revision come in one call. With an error, the first ones may be recorded: readers see them. The
// caller has the turn.
func (s *Store) record(ctx context.Context, events []event, through int64) error {
	for len(events) > 0 {
		n, bytes := 0, 0
		for n < len(events) {
			m, more := revisionOf(events[n:])
			if n > 0 && (bytes+more > appendBytes || n+m > appendWrites) {
				break
			}
			if more > groupBytes {
				break
			}
			n, bytes = n+m, bytes+more
		}
		if n == 0 { // one revision, too large for a group
			n, bytes = revisionOf(events)
			if err := s.recordLarge(ctx, events[:n]); err != nil {
				return err
			}
		} else if err := s.recordGroups(ctx, events[:n]); err != nil {
			return err
		}
		s.since += int64(bytes)
		e := events[n-1]
		s.last = lastKnown{key: e.key, rev: e.mod, deleted: e.deleted}
		events = events[n:]
	}
	s.show(moment{rev: through})
	return nil
}

// revisionOf returns how many of the first events are at one revision, and their bytes.
func revisionOf(events []event) (n, bytes int) {
	for n < len(events) && events[n].mod == events[0].mod {
		bytes += events[n].bytes()
		n++
	}
	return n, bytes
}

// recordGroups appends events, each revision in one group of the log.
func (s *Store) recordGroups(ctx context.Context, events []event) error {
	writes := make([]revlog.Write, 0, len(events))
	revs := make([]int64, 0, len(events))
	for len(events) > 0 {
		n, _ := revisionOf(events)
		slices.SortStableFunc(events[:n], deletionsFirst)
		deleted := false
		for i, e := range events[:n] {
			w := e.write()
			w.WithPrevious = i > 0
			writes, revs = append(writes, w), append(revs, e.mod)
			deleted = deleted || e.deleted
		}
		if deleted {
			writes = append(writes, revlog.Write{
				Key: markKey, Value: encodeMark(markDeletion, events[0].mod), WithPrevious: true,
			})
			revs = append(revs, events[0].mod)
		}
		events = events[n:]
	}
	applied, err := s.log.Append(ctx, writes)
	if len(applied) > 0 {
		at := s.place(applied, revs)
		s.show(at)
	}
	if err != nil {
		return fmt.Errorf("record changes of etcd: %w", err)
	}
	return nil
}

// deletionsFirst orders the changes at one revision as store.Batch promises.
func deletionsFirst(a, b event) int {
	switch {
	case a.deleted == b.deleted:
		return 0
	case a.deleted:
		return -1
	}
	return 1
}

// place notes the revisions of the positions at which writes were applied, and returns the last. A write
// with the revision 0 is no part of a state.
func (s *Store) place(applied, revs []int64) moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, pos := range applied {
		if pos > 0 && revs[i] > 0 { // not the deletion of what the log does not have
			s.positions.add(pos, revs[i])
		}
	}
	return moment{pos: slices.Max(applied), rev: revs[len(applied)-1]}
}

// recordLarge records the events of one revision like the difference of a hole: a crash in the
// middle is noticed at the next start.
func (s *Store) recordLarge(ctx context.Context, events []event) error {
	var deleted []string
	var changed []event
	for _, e := range events {
		if e.deleted {
			deleted = append(deleted, e.key)
		} else {
			changed = append(changed, e)
		}
	}
	at, _ := s.seen()
	return s.replace(ctx, difference{from: max(at.rev, events[0].mod-1), to: events[0].mod, deleted: deleted, changed: changed})
}

// difference is how the state at a revision differs from an earlier one, when the changes in
// between are not known.
type difference struct {
	from, to int64
	deleted  []string // also of what was created again
	changed  []event  // each with its own mod revision, which is at or before from if its resource is new to the log
}

// replace records a difference. Deletions come first, at the revision after the earlier state,
// because all that is known is that they happened after it; the changes follow in the order of their
// mod revisions. Readers see nothing before all is recorded. The caller has the turn.
func (s *Store) replace(ctx context.Context, d difference) error {
	slices.SortFunc(d.changed, func(a, b event) int { return cmp.Or(cmp.Compare(a.mod, b.mod), cmp.Compare(a.key, b.key)) })
	s.mu.RLock()
	torn := s.torn
	s.mu.RUnlock()
	if torn != nil {
		d.from = torn.from
	}
	whole := hole{from: d.from, to: d.to}
	p := placing{store: s, ctx: ctx}
	p.put(revlog.Write{Key: markKey, Value: encodeMark(markBegin, d.from)}, 0)
	if torn == nil && p.flush() == nil {
		torn = &hole{from: d.from, begin: p.last}
		s.setTorn(torn)
	}
	for _, key := range d.deleted {
		if key == s.last.key { // as rebuild.change
			s.last = lastKnown{}
		}
		p.put(revlog.Write{Key: key, Delete: true}, d.from+1)
	}
	for _, e := range d.changed {
		p.put(e.write(), whole.revision(e.mod))
	}
	p.put(revlog.Write{Key: markKey, Value: encodeMark(markEnd, d.to)}, d.to)
	if err := p.flush(); err != nil {
		return fmt.Errorf("record how the state at revision %d differs from that at %d: %w", d.to, d.from, err)
	}
	if n := len(d.changed); n > 0 && d.changed[n-1].mod >= s.last.rev {
		s.last = lastKnown{key: d.changed[n-1].key, rev: d.changed[n-1].mod}
	}
	if err := s.recordKnown(ctx, d.to); err != nil {
		return err
	}
	// Before it is seen: a replica that loses it reads a later state, and who has this one would be in a hole.
	if err := s.log.Sync(ctx); err != nil {
		return fmt.Errorf("make the state at revision %d durable: %w", d.to, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.torn, s.hidden = nil, moment{}
	whole.begin, whole.end = torn.begin, p.last
	s.positions.holes = append(s.positions.holes, whole)
	s.visible = moment{pos: p.last, rev: d.to}
	s.wakeLocked()
	return nil
}

func (s *Store) setTorn(h *hole) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.torn = h
}

// placing appends writes, many at once, without showing them. After an error it does nothing.
type placing struct {
	store  *Store
	ctx    context.Context //nolint:containedctx // it is one call
	writes []revlog.Write
	revs   []int64
	bytes  int
	last   int64 // the last position
	err    error
}

func (p *placing) put(w revlog.Write, rev int64) {
	p.writes, p.revs = append(p.writes, w), append(p.revs, rev)
	p.bytes += len(w.Key) + len(w.Value)
	if len(p.writes) >= appendWrites || p.bytes >= appendBytes {
		_ = p.flush() // it is kept
	}
}

func (p *placing) flush() error {
	if p.err != nil || len(p.writes) == 0 {
		return p.err
	}
	applied, err := p.store.log.Append(p.ctx, p.writes)
	if len(applied) > 0 {
		p.last = p.store.place(applied, p.revs).pos
	}
	p.store.since += int64(p.bytes)
	p.writes, p.revs, p.bytes, p.err = p.writes[:0], p.revs[:0], 0, err
	return err
}
