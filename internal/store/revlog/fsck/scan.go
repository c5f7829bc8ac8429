package fsck

import (
	"context"
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// place is where the newest whole record of a key is.
type place struct {
	segment  *segment
	offset   int64
	size     int
	revision int64
	create   int64
	deleted  bool
}

// successor is a whole record that superseded a lost one.
type successor struct {
	revision int64
	resource string
}

// gap is revisions of which no record is whole.
type gap struct {
	Revisions
	lost     int64 // how many were there; -1 if unknown
	log      bool  // in a log segment, where every revision was written
	suspects []suspect
	problem  int // in the report
}

// scanAll reads every segment.
func (c *check) scanAll(ctx context.Context) error {
	c.newest, c.resources, c.superseded = map[string]place{}, map[string]bool{}, map[int64]successor{}
	if c.hopeless() {
		return nil
	}
	for name := range c.manifest.Floors {
		c.resources[name] = true
	}
	c.highest = max(c.highest, c.manifest.Base, c.manifest.Compacted.Revision, c.manifest.Rest.Revision)
	c.millis = c.manifest.Compacted.Millis
	var total, done int64
	for _, s := range c.segments {
		if s.file != nil {
			total += s.file.size
		}
	}
	c.report.Bytes = total
	var before *segment
	for i, s := range c.segments {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.active = i == len(c.segments)-1
		c.highest = max(c.highest, s.entry.Last)
		if s.file == nil {
			c.missing(s)
		} else if err := c.scanSegment(s, before); err != nil {
			return err
		} else {
			done += s.file.size
		}
		if c.opts.Progress != nil {
			c.opts.Progress(Checking, done, total)
		}
		before = s
	}
	if c.rebuilt {
		c.unproven()
	}
	if !c.rebuilt && c.manifest.Compacted.Revision > c.highestRecord() {
		c.tailLost = true
		c.note(Problem{
			File: format.ManifestName, Offset: -1, Severity: Repairable,
			Found: fmt.Sprintf("history is compacted up to revision %d, and the segments end at %d",
				c.manifest.Compacted.Revision, c.highestRecord()),
		})
	}
	return nil
}

// unproven notes what only the manifest could tell: where the log ends, since a segment behind the
// last one leaves no trace, and unused space looks like what was never written; and what was before
// the first log segment, unless that is the first of all. A base segment does not tell whether
// there were others.
func (c *check) unproven() {
	c.tailLost = len(c.segments) > 0
	for _, s := range c.segments {
		if s.entry.Kind == format.KindLog {
			if s.entry.ID != format.FirstSegment {
				c.unknownUpTo = s.entry.First - 1
			}
			return
		}
	}
	c.unknownUpTo = c.highest
}

// highestRecord is where the segments end.
func (c *check) highestRecord() int64 {
	if n := len(c.segments); n > 0 {
		return max(c.segments[n-1].last, c.segments[n-1].entry.Last)
	}
	return c.manifest.Base
}

// missing notes a segment without a file.
func (c *check) missing(s *segment) {
	s.bad, s.last, s.chain = true, s.entry.Last, s.entry.Chain
	p := Problem{File: s.entry.Name(), Offset: -1, Severity: Repairable, Found: "the segment is missing"}
	if slices.ContainsFunc(c.files, func(f *file) bool { return f.name == p.File }) {
		p.Offset, p.Found = 0, "its header is that of another segment, and its own is nowhere"
	}
	g := gap{Revisions: Revisions{From: s.entry.First, To: s.entry.Last}, lost: -1, log: s.entry.Kind == format.KindLog}
	if g.log {
		g.lost = g.To - g.From + 1
	}
	c.addGap(g, p)
	c.tailLost = c.tailLost || s.active
}

// addGap notes damage and the revisions that it has cost, if any.
func (c *check) addGap(g gap, p Problem) {
	if g.To >= g.From && g.lost != 0 {
		r := g.Revisions
		p.Revisions = &r
		for _, k := range g.suspects {
			if k.key != "" {
				p.Keys = append(p.Keys, k.key)
			}
		}
		g.problem = len(c.report.Problems)
		c.gaps = append(c.gaps, &g)
		c.highest = max(c.highest, g.To)
	}
	c.note(p)
}

// scanSegment reads one segment; before is the one in front of it.
func (c *check) scanSegment(s, before *segment) error {
	b, err := s.read()
	if err != nil {
		return err
	}
	w := &scan{c: c, s: s, b: b, seed: s.seed(), off: format.SegmentHeaderBytes, last: s.entry.First - 1, limit: int64(len(b))}
	if s.listed && s.entry.Sealed {
		w.limit = min(w.limit, s.entry.End)
	}
	c.checkHeader(w, before)
	switch after := c.continues(s, before); {
	case after > 0 && after < s.entry.First:
		c.hole(s, Revisions{From: after, To: s.entry.First - 1})
	case after > s.entry.First:
		s.bad = true
		c.note(Problem{
			File: s.file.name, Offset: -1, Severity: Repairable,
			Found: fmt.Sprintf("it overlaps %s, which ends at revision %d", before.entry.Name(), after-1),
		})
	}
	for w.off < w.limit {
		f, records, ok := w.frame(w.off)
		if ok && (w.unknown || f.Chain == w.chain) && w.fits(records) {
			for _, r := range records {
				c.take(w, r)
			}
			w.checkPadding(f)
			w.off, w.chain, w.unknown = w.off+f.Size(), f.Payload, false
			continue
		}
		if (!s.listed || !s.entry.Sealed) && (w.off >= s.entry.End || !s.listed) && w.torn(w.off) {
			if !w.zeros(w.off) {
				c.note(Problem{
					File: s.file.name, Offset: w.off, Found: "an incomplete write that was not acknowledged", Severity: Note,
					Repair: "the next start removes it",
				})
			}
			break
		}
		if !w.specks() {
			w.damage(ok)
		}
	}
	w.finish()
	return nil
}

// continues returns the revision that a log segment has to begin with, or 0.
func (c *check) continues(s, before *segment) int64 {
	if before == nil || s.entry.Kind != format.KindLog || before.entry.Kind != format.KindLog {
		return 0
	}
	return before.last + 1
}

// hole notes that log segments are missing in front of s.
func (c *check) hole(s *segment, r Revisions) {
	p := Problem{File: s.file.name, Offset: -1, Severity: Repairable, Found: "the records before it are missing"}
	if c.rebuilt && c.segments[0].entry.Kind == format.KindBase {
		p.Severity, p.Repair = Beyond,
			"without the MANIFEST it is not known which segments are still valid; restore the directory from a backup"
	}
	s.bad = true
	c.addGap(gap{Revisions: r, lost: r.To - r.From + 1, log: true}, p)
}

// checkHeader compares the header with what it should be.
func (c *check) checkHeader(w *scan, before *segment) {
	s := w.s
	chain, chained := uint32(0), before != nil && s.entry.Kind == format.KindLog && before.entry.Kind == format.KindLog &&
		!before.bad
	if chained {
		chain = before.chain
	}
	switch {
	case s.headless:
		want := format.EncodeSegmentHeader(s.entry, s.id, chain)
		p := Problem{
			File: s.file.name, Offset: 0, Found: "the segment's header is damaged", Severity: Repairable,
			Repair: "the header is restored",
		}
		if len(w.b) < len(want) {
			s.bad, p.Repair = true, ""
		}
		c.note(p)
		s.patches = append(s.patches, patch{offset: 0, bytes: want})
	case chained:
		if found, err := format.CheckSegmentHeader(w.b, s.entry, s.id); err == nil && found != chain {
			s.bad = true
			c.note(Problem{
				File: s.file.name, Offset: 0, Found: "it does not continue " + before.entry.Name(), Severity: Repairable,
			})
		}
	}
}

// fits reports whether the records of a frame come in order after what was read.
func (w *scan) fits(records []format.Placed) bool {
	last := w.last
	for _, r := range records {
		inOrder := r.Revision > last
		if w.s.entry.Kind == format.KindLog {
			inOrder = r.Revision == last+1
		}
		if !inOrder || r.Revision > format.MaxRevision {
			return false
		}
		last = r.Revision
	}
	return true
}

// checkPadding repairs the bytes behind the records of a whole frame, which nothing
// depends on.
func (w *scan) checkPadding(f format.Frame) {
	from, to := w.off+format.FrameHeaderBytes+int64(f.Bytes), w.off+f.Size()
	for at := from; at < to; at++ {
		if w.b[at] != padByte {
			w.s.patches = append(w.s.patches, patch{offset: at, bytes: []byte{padByte}})
			w.c.note(Problem{
				File: w.s.file.name, Offset: at, Found: "a byte of the padding is damaged; nothing depends on it",
				Severity: Repairable, Repair: "it is restored",
			})
		}
	}
}

// specks repairs the unused space behind the log's end when a few bytes of it are not
// zero: too few for anything that was written.
func (w *scan) specks() bool {
	const few = 4 // a frame with one record has at least 40 bytes that are not zero
	if !w.s.listed || w.s.entry.Sealed || w.off < w.s.entry.End {
		return false
	}
	var at []int64
	for off := w.off; off < w.limit; off++ {
		if w.b[off] != 0 {
			if at = append(at, off); len(at) > few {
				return false
			}
		}
	}
	if len(at) == 0 {
		return true
	}
	for _, off := range at {
		w.s.patches = append(w.s.patches, patch{offset: off, bytes: []byte{0}})
		w.b[off] = 0
	}
	// A start of the server says that the damage begins where the log ends.
	w.c.note(Problem{
		File: w.s.file.name, Offset: w.off, Severity: Repairable,
		Found:  fmt.Sprintf("%d bytes of the unused space from here on are not zero, the first at byte %d", len(at), at[0]),
		Repair: "they are set to zero",
	})
	return true
}

// damage handles bytes at the scan's offset that are not the expected frame;
// whole says that it is one, only elsewhere in the order.
func (w *scan) damage(whole bool) {
	r := w.salvage()
	if m := w.restore(r); !whole && m.records != nil && w.fits(m.records) {
		for _, k := range m.records {
			w.c.take(w, k)
		}
		w.s.patches = append(w.s.patches, m.patches...)
		w.c.note(Problem{
			File: w.s.file.name, Offset: m.offset, Severity: Repairable, Found: m.found,
			Repair: "it is restored; the records are intact",
		})
		w.off, w.chain, w.unknown = r.end, m.frame.Payload, false
		return
	}
	w.s.bad = true
	noted := len(w.c.report.Problems)
	l := loss{offset: w.off, from: w.last + 1, readable: r.readable}
	counted := int64(0)
	for _, k := range r.pieces {
		switch {
		case !k.whole:
			l.suspects = append(l.suspects, read(k.bad, k.record.Offset))
			counted++
		case k.record.Revision > w.last && k.record.Revision <= format.MaxRevision:
			l.to, l.lost = k.record.Revision-1, int64(len(l.suspects))
			w.lose(l)
			w.c.take(w, k.record)
			l = loss{offset: w.off, from: w.last + 1, readable: r.readable}
			counted++
		}
	}
	l.to, l.lost = w.end(r), -1
	if r.readable {
		l.lost = int64(r.head.Count) - counted + int64(len(l.suspects))
	}
	w.lose(l)
	w.c.tailLost = w.c.tailLost || !r.follows && w.s.active
	if len(w.c.report.Problems) == noted {
		w.c.note(Problem{
			File: w.s.file.name, Offset: w.off, Severity: Repairable, Found: "the frame is damaged, or not in its place",
		})
	}
	w.last = max(w.last, l.to)
	w.off, w.unknown, w.chain = r.end, !r.readable, r.head.Payload
}

// end returns the last revision that the damage may have held.
func (w *scan) end(r region) int64 {
	next, ok := w.header(r.end)
	switch {
	case ok && next.First > w.last && next.First <= format.MaxRevision:
		return next.First - 1
	case r.readable && w.s.entry.Kind == format.KindLog && r.head.First <= format.MaxRevision:
		return max(w.last, r.head.First+int64(r.head.Count)-1)
	case w.s.listed:
		return max(w.last, w.s.entry.Last)
	}
	return w.last
}

// loss is revisions between two whole ones, of which the records are unreadable.
type loss struct {
	offset   int64
	from, to int64
	lost     int64 // how many there were, in a base segment; -1 if unknown
	suspects []suspect
	readable bool // the header of the frame is right
}

// lose notes a loss, if it is one.
func (w *scan) lose(l loss) {
	log := w.s.entry.Kind == format.KindLog
	if log {
		l.lost = l.to - l.from + 1
	}
	if l.lost == 0 && len(l.suspects) == 0 {
		return
	}
	p := Problem{File: w.s.file.name, Offset: l.offset, Severity: Repairable, Found: "a frame is damaged"}
	if len(l.suspects) > 0 {
		p.Found = "a record is damaged"
		if l.readable { // otherwise the damage begins with the frame's header
			p.Offset = l.suspects[0].offset
		}
	}
	w.c.addGap(gap{Revisions: Revisions{From: l.from, To: l.to}, lost: l.lost, log: log, suspects: l.suspects}, p)
}

// finish compares the end of the segment with what was written.
func (w *scan) finish() {
	s, c := w.s, w.c
	s.last, s.chain = w.last, w.chain
	p := Problem{File: s.file.name, Offset: w.off, Severity: Repairable}
	// Behind the last frame are zeros, unless the file was cut off.
	expected := max(s.entry.End, s.entry.Size)
	short := s.listed && int64(len(w.b)) < expected
	cut := s.active && w.off+format.FrameHeaderBytes > int64(len(w.b)) && (!s.listed || int64(len(w.b)) < s.entry.Size)
	c.tailLost = c.tailLost || cut
	if short && !s.bad && w.last >= s.entry.Last && !cut {
		s.patches = append(s.patches, patch{offset: expected})
	}
	s.bad = s.bad || short && cut
	if short {
		c.noteShort(w, expected)
	}
	switch {
	case s.listed && w.last < s.entry.Last:
		s.bad = true
		p.Found = fmt.Sprintf("it ends at revision %d, but %d was written", w.last, s.entry.Last)
		g := gap{Revisions: Revisions{From: w.last + 1, To: s.entry.Last}, lost: -1, log: s.entry.Kind == format.KindLog}
		if g.log {
			g.lost = g.To - g.From + 1
		}
		c.addGap(g, p)
		c.tailLost = c.tailLost || s.active
		s.last = s.entry.Last
	case s.listed && s.entry.Sealed && !w.unknown && w.chain != s.entry.Chain && !s.bad:
		s.bad, p.Found = true, "its last frame is not the one that was written"
		c.note(p)
	}
	c.highest = max(c.highest, w.reached, s.last)
}

// noteShort notes that a segment's file was cut off.
func (c *check) noteShort(w *scan, expected int64) {
	p := Problem{
		File: w.s.file.name, Offset: int64(len(w.b)), Severity: Repairable, Repair: "the whole records are kept",
		Found: fmt.Sprintf("it has %d bytes where %d are expected", len(w.b), expected),
	}
	switch {
	case len(w.s.patches) > 0 && w.s.patches[len(w.s.patches)-1].offset == expected:
		p.Repair = "zeros are appended"
	case c.tailLost:
		p.Repair = "the last writes may be lost"
	}
	c.note(p)
}

// take counts a whole record.
func (c *check) take(w *scan, r format.Placed) {
	w.last = r.Revision
	c.report.Records++
	c.highest, c.millis = max(c.highest, r.Revision), max(c.millis, r.Millis)
	resource := store.ResourceOf(r.Key)
	c.resources[resource] = true
	if w.s.entry.Kind == format.KindLog && r.Previous != 0 && c.inGap(r.Previous) {
		c.superseded[r.Previous] = successor{revision: r.Revision, resource: resource}
	}
	if old, ok := c.newest[r.Key]; !ok || old.revision <= r.Revision {
		c.newest[r.Key] = place{
			segment: w.s, offset: r.Offset, size: r.Size, revision: r.Revision, create: r.Create,
			deleted: r.Kind == format.KindDelete,
		}
	}
}

func (c *check) inGap(revision int64) bool {
	for _, g := range c.gaps {
		if g.From <= revision && revision <= g.To {
			return true
		}
	}
	return false
}
