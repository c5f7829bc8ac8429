package simulation

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// flight is a write whose outcome is not known yet, or never will be.
type flight struct {
	txn          store.Txn
	revision     int64 // 0 as long as no reader has seen it
	acknowledged bool
	late         bool // it began after a failed sync was reported
	always       bool // of Append: without a condition
	chain        int  // of the writes of an Append that are bound together; 0: none
}

// entry is a write that happened.
type entry struct {
	txn      store.Txn
	previous int64 // revision of what it replaced, 0 if nothing was there
	create   int64
	bound    bool      // to the write before it
	time     time.Time // as the log says; zero: it has not said it yet
}

// model is what was shown of a log. Its user guards it.
type model struct {
	base      int64
	entries   []entry // of the revisions from base+1 on, without gaps
	seen      map[int64]*flight
	flights   map[*flight]bool
	versions  map[string][]int64 // revisions of each key in entries
	highest   int64              // revision that anybody was shown
	compacted int64              // mark that anybody was shown
	observed  int64              // mark that the log said last that it has
	delivered int64              // what the feed with Hold has delivered
	ends      map[int64]bool     // revisions at which the log ended at a moment
	moments   []answer           // of this life
	calls     [][]*flight        // Appends of this life
	hidden    []*flight          // their writes that only the next life may show
	later     []func() error     // checks that wait for entries up to a revision
	until     []int64            // that revision
	problem   error              // the first violation
}

func newModel() *model {
	return &model{
		base: revlog.DefaultBaseRevision, highest: revlog.DefaultBaseRevision, delivered: revlog.DefaultBaseRevision,
		seen: map[int64]*flight{}, flights: map[*flight]bool{}, versions: map[string][]int64{}, ends: map[int64]bool{},
	}
}

// fail notes a violation.
func (m *model) fail(format string, args ...any) {
	if m.problem == nil {
		m.problem = fmt.Errorf(format, args...)
	}
}

// head is the last revision up to which every write is known.
func (m *model) head() int64 { return m.base + int64(len(m.entries)) }

func (m *model) entry(revision int64) *entry {
	if i := revision - m.base - 1; i >= 0 && i < int64(len(m.entries)) {
		return &m.entries[i]
	}
	return nil
}

// current returns the revision of a key as far as it is known, 0 if it does not exist.
func (m *model) current(key string) int64 {
	versions := m.versions[key]
	if len(versions) == 0 {
		return 0
	}
	last := versions[len(versions)-1]
	if m.entry(last).txn.Delete {
		return 0
	}
	return last
}

// begin notes that a write is in progress.
func (m *model) begin(t store.Txn) *flight {
	f := &flight{txn: t}
	m.flights[f] = true
	return f
}

// refused notes that a write has not happened and never will.
func (m *model) refused(f *flight) {
	if f.revision != 0 {
		for other := range m.flights {
			if other.same(f) { // it was that one
				other.revision, f.revision = f.revision, 0
				m.seen[other.revision] = other
				delete(m.flights, other)
				return
			}
		}
		m.fail("a write of %q was refused, but it was seen at revision %d", f.txn.Key, f.revision)
	}
	delete(m.flights, f)
}

// acknowledged notes that a write happened.
func (m *model) acknowledged(f *flight, revision int64) {
	f.acknowledged = true
	other := m.seen[revision]
	switch {
	case other == f:
		return
	case other != nil && other.same(f) && !other.acknowledged:
		// A reader has seen one of two deletions of the same version: it was this one.
		if f.revision != 0 {
			m.fail("a deletion of %q is seen at %d and %d", f.txn.Key, f.revision, revision)
		}
		other.revision = 0
		m.flights[other] = true
		f.revision = revision
		delete(m.flights, f)
		m.seen[revision] = f
		return
	case other != nil:
		m.fail("revision %d is given out twice: to %q and to %q", revision, other.txn.Key, f.txn.Key)
	case f.revision != 0:
		m.fail("a write of %q is acknowledged at %d, but was seen at %d", f.txn.Key, revision, f.revision)
	}
	m.assign(f, revision)
}

// same says that only the writers can distinguish two writes.
func (f *flight) same(other *flight) bool {
	return f.txn.Delete && other.txn.Delete && f.txn.Key == other.txn.Key &&
		f.txn.ExpectedModRevision == other.txn.ExpectedModRevision
}

func (m *model) assign(f *flight, revision int64) {
	f.revision = revision
	delete(m.flights, f)
	m.seen[revision] = f
	m.highest = max(m.highest, revision)
	m.extend()
}

// shown notes that a reader has seen what a revision wrote: a put of a value, or
// with a previous revision the deletion of it.
func (m *model) shown(revision int64, key string, value []byte, deleted int64) {
	if f := m.seen[revision]; f != nil {
		if !f.is(key, value, deleted) {
			m.fail("revision %d was of %q and is now %q", revision, f.txn.Key, key)
		}
		return
	}
	for f := range m.flights {
		if f.is(key, value, deleted) {
			m.assign(f, revision)
			return
		}
	}
	m.fail("revision %d of %q (deletes %d) has no writer, or is of a refused write", revision, key, deleted)
}

func (f *flight) is(key string, value []byte, deleted int64) bool {
	if f.txn.Key != key || f.txn.Delete != (deleted != 0) {
		return false
	}
	return f.txn.Delete && (f.always || f.txn.ExpectedModRevision == deleted) || !f.txn.Delete && bytes.Equal(f.txn.Value, value)
}

// extend moves what is known without gaps into entries, and does the checks that
// have waited for it.
func (m *model) extend() {
	for {
		revision := m.head() + 1
		f := m.seen[revision]
		if f == nil {
			break
		}
		before := m.seen[revision-1]
		e := entry{
			txn: f.txn, previous: m.current(f.txn.Key), create: revision,
			bound: before != nil && f.chain != 0 && f.chain == before.chain,
		}
		if e.bound && m.ends[revision-1] {
			m.fail("revision %d of %q is bound to the one before, but the log ended between them", revision, f.txn.Key)
		}
		if e.previous != f.txn.ExpectedModRevision && !f.always {
			m.fail("revision %d of %q was written over %d, but expected %d",
				revision, f.txn.Key, e.previous, f.txn.ExpectedModRevision)
		}
		if e.previous != 0 {
			e.create = m.entry(e.previous).create
		}
		m.entries = append(m.entries, e)
		m.versions[f.txn.Key] = append(m.versions[f.txn.Key], revision)
	}
	for i := 0; i < len(m.later); i++ {
		if m.until[i] <= m.head() {
			if err := m.later[i](); err != nil {
				m.fail("%w", err)
			}
			m.later = slices.Delete(m.later, i, i+1)
			m.until = slices.Delete(m.until, i, i+1)
			i--
		}
	}
}

// ended notes that the log ended at a revision.
func (m *model) ended(revision int64) {
	m.ends[revision] = true
	if e := m.entry(revision + 1); e != nil && e.bound {
		m.fail("the log ended at %d, but the next write of %q is bound to that", revision, e.txn.Key)
	}
}

// hide notes that a write has failed and is not visible; after a restart it may be.
func (m *model) hide(f *flight) {
	if f.revision != 0 {
		m.fail("a write of %q failed, but it was seen at revision %d", f.txn.Key, f.revision)
	}
	delete(m.flights, f)
	m.hidden = append(m.hidden, f)
}

// restart is called before the log is read again.
func (m *model) restart() {
	for _, f := range m.hidden {
		m.flights[f] = true
	}
	m.hidden = nil
}

// checkCalls checks after a restart that of each Append the first writes are there and no others.
// Deletions do not count: one that is not there may have had nothing to delete, and one that is
// there may be that of another Append.
func (m *model) checkCalls() {
	for _, call := range m.calls {
		var missing *flight
		for i, f := range call {
			switch {
			case f.txn.Delete:
			case f.revision == 0:
				missing = f
			case missing != nil:
				m.fail("write %d of an Append, of %q, is there at %d, but an earlier one of %q is missing",
					i+1, f.txn.Key, f.revision, missing.txn.Key)
			}
		}
	}
	m.calls = nil
}

// when does a check once every write up to revision is known.
func (m *model) when(revision int64, check func() error) {
	m.highest = max(m.highest, revision)
	m.later, m.until = append(m.later, check), append(m.until, revision)
	m.extend()
}

// at returns the version of a key at a revision, 0 if it did not exist.
func (m *model) at(key string, revision int64) int64 {
	versions := m.versions[key]
	i, found := slices.BinarySearch(versions, revision)
	if !found {
		i--
	}
	if i < 0 || m.entry(versions[i]).txn.Delete {
		return 0
	}
	return versions[i]
}

// checkRecord compares a record with what was written at its revision.
func (m *model) checkRecord(r store.Record) error {
	e := m.entry(r.ModRevision)
	switch {
	case e == nil:
		return fmt.Errorf("record of %q has the unknown revision %d", r.Key, r.ModRevision)
	case e.txn.Key != r.Key || e.txn.Delete || !bytes.Equal(e.txn.Value, r.Value):
		return fmt.Errorf("revision %d holds %d bytes for %q, but %d for %q were written",
			r.ModRevision, len(r.Value), r.Key, len(e.txn.Value), e.txn.Key)
	case e.create != r.CreateRevision:
		return fmt.Errorf("revision %d of %q says it was created at %d, it was at %d",
			r.ModRevision, r.Key, r.CreateRevision, e.create)
	}
	return e.committed(r.ModRevision, r.Time)
}

// committed notes when a write happened, which is always the same.
func (e *entry) committed(revision int64, at time.Time) error {
	if !e.time.IsZero() && !e.time.Equal(at) {
		return fmt.Errorf("revision %d was committed at %v, and is now of %v", revision, e.time, at)
	}
	e.time = at
	return nil
}

// checkPage compares a page with the state at its revision.
func (m *model) checkPage(q store.Query, p store.Page) error {
	var want []int64
	for key := range m.versions {
		if key >= q.Start && (key < q.End || q.End == "" && key == q.Start) {
			if v := m.at(key, p.Revision); v != 0 {
				want = append(want, v)
			}
		}
	}
	slices.SortFunc(want, func(a, b int64) int { return strings.Compare(m.entry(a).txn.Key, m.entry(b).txn.Key) })
	total := len(want)
	if q.Limit > 0 && total > q.Limit {
		want = want[:q.Limit]
	}
	var got []int64
	for _, r := range p.Records {
		if err := m.checkRecord(r); err != nil {
			return err
		}
		got = append(got, r.ModRevision)
	}
	if !slices.Equal(got, want) || p.More != (total > len(want)) {
		return fmt.Errorf("read %+v at %d gives revisions %v (more: %v), want %v of %d", q, p.Revision, got, p.More, want, total)
	}
	return nil
}

// checkChange compares a change with what was written.
func (m *model) checkChange(c store.Change) error {
	e := m.entry(c.Revision)
	if e == nil {
		return fmt.Errorf("change %d of %q is unknown", c.Revision, c.Key)
	}
	if e.txn.Key != c.Key || e.txn.Delete != c.Deleted || !c.Deleted && !bytes.Equal(e.txn.Value, c.Value) {
		return fmt.Errorf("change %d is of %q with %d bytes, but %q with %d was written",
			c.Revision, c.Key, len(c.Value), e.txn.Key, len(e.txn.Value))
	}
	if (c.Previous == nil) != (e.previous == 0) || c.Previous != nil && c.Previous.ModRevision != e.previous {
		return fmt.Errorf("change %d replaces %+v, want revision %d", c.Revision, c.Previous, e.previous)
	}
	if c.Previous != nil {
		if err := m.checkRecord(*c.Previous); err != nil {
			return err
		}
	}
	return e.committed(c.Revision, c.Time)
}

// checkBatch checks a batch of a feed that had delivered everything up to after.
func (m *model) checkBatch(prefix string, after int64, b store.Batch) {
	for _, c := range b.Changes {
		if c.Deleted != (c.Value == nil) || c.Deleted && c.Previous == nil {
			m.fail("change %d of %q has %d bytes and replaces %+v; deleted: %v",
				c.Revision, c.Key, len(c.Value), c.Previous, c.Deleted)
			return
		}
		var deleted int64
		if c.Deleted {
			deleted = c.Previous.ModRevision
		}
		m.shown(c.Revision, c.Key, c.Value, deleted)
	}
	m.when(b.Through, func() error {
		var want []int64
		for r := after + 1; r <= b.Through; r++ {
			if strings.HasPrefix(m.entry(r).txn.Key, prefix) {
				want = append(want, r)
			}
		}
		var got []int64
		for _, c := range b.Changes {
			if err := m.checkChange(c); err != nil {
				return err
			}
			got = append(got, c.Revision)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the feed of %q after %d through %d delivers %v, want %v", prefix, after, b.Through, got, want)
		}
		return nil
	})
}

// floor is the oldest revision that can be read once history up to compacted
// is compacted: the last write there that superseded or deleted something.
func (m *model) floor(prefix string, compacted int64) int64 {
	for r := min(compacted, m.head()); r > m.base; r-- {
		if e := m.entry(r); e.previous != 0 && strings.HasPrefix(e.txn.Key, prefix) {
			return r
		}
	}
	return 0
}

// compact notes a compaction mark. It may be ahead of what the feed with Hold has
// delivered only as far as a batch that is on its way to the reader.
func (m *model) compact(compacted int64) { m.compacted = max(m.compacted, compacted) }

// held notes that the feed with Hold has delivered a batch.
func (m *model) held(b store.Batch) {
	if b.Through < m.compacted {
		m.fail("history is compacted up to %d, but the feed that holds it has delivered up to %d only", m.compacted, b.Through)
	}
	if b.Compacted > b.Through {
		m.fail("the feed with Hold reports a compaction up to %d, it delivered up to %d", b.Compacted, b.Through)
	}
	m.delivered = max(m.delivered, b.Through)
	m.compact(b.Compacted)
}

// checkRefusal checks that a request at a revision may be refused.
func (m *model) checkRefusal(prefix string, requested int64, e *store.CompactedError) {
	m.compacted = max(m.compacted, e.Floor)
	m.when(e.Floor, func() error {
		if w := m.entry(e.Floor); requested >= e.Floor || w == nil || w.previous == 0 || !strings.HasPrefix(w.txn.Key, prefix) {
			return fmt.Errorf("a request of %q at %d is refused with the floor %d", prefix, requested, e.Floor)
		}
		return nil
	})
}

// recordBytes is what a write takes in the log.
func recordBytes(t store.Txn) int64 {
	size := 48 + len(t.Key)
	if !t.Delete {
		size += len(t.Value)
	}
	return int64((size + 7) / 8 * 8)
}

// historyBytes is what is kept that is not the newest version of a live key, once
// history up to compacted is compacted.
func (m *model) historyBytes(compacted int64) int64 {
	var bytes int64
	for _, versions := range m.versions {
		for i, v := range versions {
			next := int64(0)
			if i+1 < len(versions) {
				next = versions[i+1]
			}
			e := m.entry(v)
			switch {
			case next == 0 && !e.txn.Delete: // live
			case next != 0 && next <= compacted, e.txn.Delete && v <= compacted: // compacted
			default:
				bytes += recordBytes(e.txn)
			}
		}
	}
	return bytes
}

// sortedFlights returns the writes whose outcome is unknown, for messages.
func (m *model) sortedFlights() []string {
	var names []string
	for f := range m.flights {
		names = append(names, fmt.Sprintf("%s over %d", f.txn.Key, f.txn.ExpectedModRevision))
	}
	slices.SortFunc(names, cmp.Compare)
	return names
}
