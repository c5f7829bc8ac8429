package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

const (
	// reasonRepair is why a repair has expired resource versions.
	reasonRepair = "repair"
	// reasonReplaced is why a log that was raised has: kube.ReasonReplaced, which this package
	// does not import.
	reasonReplaced = "replaced"
	// repairPrefix begins the names of files that are not in their place yet.
	repairPrefix = "repair-"

	segmentBytes = 64 << 20
)

// repair makes a sound log: it writes new files beside the old ones, keeps those in
// another directory, and then replaces the manifest. Before that the log is as it
// was, and what was made is removed again if it cannot be completed.
func (c *check) repair(ctx context.Context) (_ *Repair, err error) {
	m := &repairer{c: c, man: c.manifest}
	m.man.Floors = maps.Clone(c.manifest.Floors)
	defer func() {
		if err != nil && !m.switched {
			err = errors.Join(err, m.undo())
		}
	}()
	if err := durable.MkdirAll(c.opts.Kept); err != nil {
		return nil, fmt.Errorf("make the directory for the former files: %w", err)
	}
	m.result.Kept = c.opts.Kept
	upTo := m.lastBad()
	switch {
	case len(c.segments) == 0 && !c.certain():
		err = errors.New("there is no segment")
	case len(c.segments) == 0 && c.opts.Raise:
		err = errors.New("nothing was written to it: there is nothing to raise")
	case !c.certain() || c.opts.Raise:
		err = m.rewrite(ctx, c.segments)
	case upTo >= 0:
		err = m.rewrite(ctx, c.segments[:upTo+1])
	default:
		m.result.Revision = c.highest
	}
	for _, s := range c.segments {
		if err == nil && len(s.patches) > 0 && !slices.Contains(m.dropped, s) {
			err = m.patch(s)
		}
	}
	if err == nil {
		err = m.commit()
	}
	return &m.result, err
}

// repairer is a repair in progress.
type repairer struct {
	c        *check
	man      format.Manifest
	result   Repair
	made     []string   // files that were made, by name
	dropped  []*segment // what the new base segments replace
	renames  [][2]string
	switched bool

	out *output
}

// lastBad returns the position of the last segment that has to be rewritten, or -1.
func (m *repairer) lastBad() int {
	last := -1
	for i, s := range m.c.segments {
		if s.bad {
			last = i
		}
	}
	return last
}

// undo removes the new files.
func (m *repairer) undo() error {
	var err error
	for _, name := range m.made {
		if gone := m.c.fs.Remove(name); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return errors.Join(err, os.RemoveAll(m.c.opts.Kept))
}

// rewrite replaces the first segments by base segments of the newest version of each
// key in them, and expires the history up to there. If they are all of them, and it
// is not certain that nothing was lost, the log skips ahead.
func (m *repairer) rewrite(ctx context.Context, sources []*segment) error {
	c := m.c
	all := len(sources) == len(c.segments)
	upTo := sources[len(sources)-1].last
	newest := c.newest
	if all {
		from := c.skipsFrom()
		if upTo = c.highest; !c.certain() || c.opts.Raise {
			upTo = max(upTo, from+c.opts.Bump)
		}
		for m.taken(format.SegmentEntry{Kind: format.KindLog, First: upTo + 1}.Name()) {
			upTo++
		}
		if upTo > format.MaxRevision {
			return fmt.Errorf("skip %d revisions after %d: the last one is %d", c.opts.Bump, from, int64(format.MaxRevision))
		}
		m.skip(from, upTo)
	} else {
		var err error
		if newest, err = c.newestIn(ctx, sources); err != nil {
			return err
		}
	}
	m.dropped = sources
	for _, f := range c.files {
		m.man.NextSegment = max(m.man.NextSegment, f.entry.ID+1)
	}
	entries, err := m.writeBase(ctx, newest)
	if err != nil {
		return err
	}
	if all {
		e, err := m.writeActive(upTo)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	} else {
		for _, s := range c.segments[len(sources):] {
			entries = append(entries, s.entry)
		}
	}
	m.man.Segments = entries
	m.expire(upTo)
	m.result.Revision = max(upTo, c.segments[len(c.segments)-1].last)
	return nil
}

// raises reports whether the log is to skip ahead, and has not done so already.
func (c *check) raises() bool {
	return c.opts.Raise && !c.hopeless() && c.skipsFrom()+c.opts.Bump > c.highest
}

// skipsFrom returns the revision after which the log skips: where it ends, or where it ended
// before it was raised, if nothing was written since.
func (c *check) skipsFrom() int64 {
	if r := c.manifest.Raised; r != nil && r.To == c.highest {
		return r.From
	}
	return c.highest
}

// skip notes the revisions that no write gets.
func (m *repairer) skip(from, upTo int64) {
	if upTo == from {
		return
	}
	m.result.Skipped = &Revisions{From: from + 1, To: upTo}
	if m.c.opts.Raise {
		m.man.Raised = &format.Raised{From: from, To: upTo}
	}
}

// newestIn returns the newest version of each key in some of the segments.
func (c *check) newestIn(ctx context.Context, sources []*segment) (map[string]place, error) {
	part := &check{opts: c.opts, fs: c.fs, dir: c.dir, base: c.base, report: &Report{}, manifest: c.manifest}
	part.opts.Progress = nil
	places := map[*segment]*segment{}
	for _, s := range sources {
		again := &segment{entry: s.entry, id: s.id, file: s.file, listed: s.listed, headless: s.headless}
		places[again] = s
		part.segments = append(part.segments, again)
	}
	if err := part.scanAll(ctx); err != nil {
		return nil, err
	}
	for key, p := range part.newest {
		p.segment = places[p.segment]
		part.newest[key] = p
	}
	return part.newest, nil
}

func (m *repairer) taken(name string) bool {
	return slices.ContainsFunc(m.c.files, func(f *file) bool { return f.name == name })
}

// expire raises the floors to where the repair has left history out, or to where a
// whole record supersedes a lost one.
func (m *repairer) expire(upTo int64) {
	mark := format.Mark{Revision: upTo, Millis: m.c.millis, Reason: reasonRepair, Removed: time.Now().UnixMilli()}
	if m.c.opts.Raise {
		mark.Reason = reasonReplaced
	}
	if upTo >= m.man.Compacted.Revision {
		m.man.Compacted = mark
	}
	if (!m.c.certain() || m.c.opts.Raise) && upTo > m.man.Rest.Revision { // of a resource nothing may be left
		m.man.Rest = mark
	}
	if m.man.Floors == nil {
		m.man.Floors = map[string]format.Mark{}
	}
	for name := range m.c.resources {
		if m.man.Floors[name].Revision < upTo {
			m.man.Floors[name] = mark
		}
	}
	for _, s := range m.c.superseded {
		if raised := m.man.Floors[s.resource]; s.revision > raised.Revision {
			raised.Revision = s.revision
			m.man.Floors[s.resource] = raised
		}
	}
	m.result.Expired = upTo
}

// create makes a file of the log that a failed repair removes.
func (m *repairer) create(name string) (disk.File, error) {
	f, err := m.c.fs.Create(name)
	if err != nil {
		return nil, err
	}
	m.made = append(m.made, name)
	return f, nil
}

// writeActive makes the segment in which the log continues after upTo.
func (m *repairer) writeActive(upTo int64) (format.SegmentEntry, error) {
	e := format.SegmentEntry{
		ID: m.man.NextSegment, Kind: format.KindLog, First: upTo + 1, Last: upTo, End: format.SegmentHeaderBytes, Size: 1 << 20,
	}
	m.man.NextSegment++
	f, err := m.create(e.Name())
	if err != nil {
		return e, err
	}
	err = f.Allocate(e.Size)
	if err == nil {
		_, err = f.WriteAt(format.EncodeSegmentHeader(e, m.man.ID(), 0), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return e, errors.Join(err, f.Close())
}

// patch writes a segment with its corrections beside the old one.
func (m *repairer) patch(s *segment) error {
	b, err := s.read()
	if err != nil {
		return err
	}
	size := int64(len(b))
	for _, p := range s.patches {
		size = max(size, p.offset+int64(len(p.bytes)))
	}
	b = append(b, make([]byte, size-int64(len(b)))...)
	for _, p := range s.patches {
		copy(b[p.offset:], p.bytes)
	}
	name := repairPrefix + s.entry.Name()
	f, err := m.create(name)
	if err != nil {
		return err
	}
	m.renames = append(m.renames, [2]string{name, s.entry.Name()})
	if _, err = f.WriteAt(b, 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// commit keeps the former files, puts the new ones in their place and replaces the
// manifest, which is what makes the repair valid.
func (m *repairer) commit() error {
	c := m.c
	if err := m.man.Check(); err != nil {
		return err
	}
	body, err := format.EncodeManifest(m.man)
	if err != nil {
		return err
	}
	if err := m.keep(); err != nil {
		return fmt.Errorf("keep the former files: %w", err)
	}
	f, err := m.create(format.ManifestTemp)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(body, 0); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := c.fs.Dir().Sync(); err != nil {
		return err
	}
	if err := c.close(); err != nil { // Windows renames and removes no open file
		return err
	}
	m.switched = true             // from here on the new files may be the ones that count
	for _, r := range m.renames { // each is whole with the former manifest too
		if err := c.fs.Rename(r[0], r[1]); err != nil {
			return err
		}
	}
	if err := errors.Join(c.fs.Rename(format.ManifestTemp, format.ManifestName), c.fs.Dir().Sync()); err != nil {
		return err
	}
	for _, f := range c.files {
		listed := slices.ContainsFunc(m.man.Segments, func(e format.SegmentEntry) bool { return e.Name() == f.name })
		if !listed {
			err = errors.Join(err, c.fs.Remove(f.name))
		}
	}
	return errors.Join(err, c.fs.Dir().Sync())
}

// keep puts every file that will be replaced or removed into the directory for the
// former files: as a second name of the same bytes, or a copy where there are none.
func (m *repairer) keep() error {
	names := []string{format.ManifestName}
	for _, f := range m.c.files {
		listed := slices.ContainsFunc(m.man.Segments, func(e format.SegmentEntry) bool { return e.Name() == f.name })
		patched := slices.ContainsFunc(m.renames, func(r [2]string) bool { return r[1] == f.name })
		if !listed || patched {
			names = append(names, f.name)
		}
	}
	for _, name := range names {
		from, to := filepath.Join(m.c.dir, name), filepath.Join(m.c.opts.Kept, name)
		err := os.Link(from, to)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			err = copyFile(from, to)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return durable.SyncDir(m.c.opts.Kept)
}

// copyFile is for file systems without links.
func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return durable.WriteFile(to, b)
}

// output is the base segment that is being written.
type output struct {
	entry format.SegmentEntry
	file  disk.File
	seed  uint32
}

// writeBase writes the places as base segments.
func (m *repairer) writeBase(ctx context.Context, newest map[string]place) (entries []format.SegmentEntry, err error) {
	places := make([]place, 0, len(newest))
	var done, total int64
	for _, p := range newest {
		if !p.deleted {
			places = append(places, p)
			total += int64(p.size)
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.revision, b.revision) })
	seal := func() error {
		if m.out == nil {
			return nil
		}
		entries = append(entries, m.out.entry)
		out := m.out
		m.out = nil
		return errors.Join(out.file.Sync(), out.file.Close())
	}
	defer func() { err = errors.Join(err, seal()) }()
	for len(places) > 0 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, bytes := 0, 0
		for n < len(places) && (n == 0 || bytes+places[n].size <= 1<<20) {
			bytes += places[n].size
			n++
		}
		if m.out != nil && m.out.entry.End+format.FrameSize(bytes) > segmentBytes {
			if err := seal(); err != nil {
				return nil, err
			}
		}
		if m.out == nil {
			if err := m.openBase(places[0].revision); err != nil {
				return nil, err
			}
		}
		if err := m.writeFrame(places[:n]); err != nil {
			return nil, err
		}
		places = places[n:]
		if done += int64(bytes); m.c.opts.Progress != nil {
			m.c.opts.Progress(Repairing, done, total)
		}
	}
	return entries, nil
}

func (m *repairer) openBase(first int64) error {
	e := format.SegmentEntry{
		ID: m.man.NextSegment, Kind: format.KindBase, First: first, Last: first - 1, End: format.SegmentHeaderBytes, Sealed: true,
	}
	for m.taken(e.Name()) {
		e.ID++
	}
	m.man.NextSegment = e.ID + 1
	f, err := m.create(e.Name())
	if err != nil {
		return err
	}
	header := format.EncodeSegmentHeader(e, m.man.ID(), 0)
	if _, err := f.WriteAt(header, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	m.out = &output{entry: e, file: f, seed: format.SegmentSeed(header)}
	return nil
}

// writeFrame copies records into one frame. Each is checked again.
func (m *repairer) writeFrame(places []place) error {
	b := append([]byte(nil), make([]byte, format.FrameHeaderBytes)...)
	for _, p := range places {
		raw := make([]byte, p.size)
		if n, err := p.segment.file.disk.ReadAt(raw, p.offset); n < len(raw) {
			return fmt.Errorf("read %s at %d: %w", p.segment.file.name, p.offset, err)
		}
		r, _, err := format.ParseRecord(raw)
		if err != nil || r.Revision != p.revision {
			return fmt.Errorf("read %s at %d: it has changed meanwhile (%w)",
				p.segment.file.name, p.offset, cmp.Or(err, format.ErrBadRecord))
		}
		format.SealRecord(raw, m.out.seed)
		b = append(b, raw...)
	}
	e := &m.out.entry
	b, f := format.SealFrame(b, format.Frame{Count: len(places), First: places[0].revision, Chain: e.Chain}, m.out.seed, e.End)
	if _, err := m.out.file.WriteAt(b, e.End); err != nil {
		return err
	}
	e.End, e.Chain, e.Last = e.End+f.Size(), f.Payload, places[len(places)-1].revision
	return nil
}
