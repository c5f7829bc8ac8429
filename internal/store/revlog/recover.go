package revlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

const (
	adviceRestore = "nothing was changed; gapless fsck says what is lost and can repair it, or restore the " +
		"directory from a backup"
	adviceForeign = "give the log a directory of its own, or an empty one"
	adviceNewer   = "use the version of gapless that wrote it, or an empty directory"
)

func (l *Log) corrupt(name string, off int64, found string) error {
	return &store.CorruptError{Path: l.fs.Dir().Path() + "/" + name, Offset: off, Found: found, Advice: adviceRestore}
}

// newer says that a file is of a newer format.
func (l *Log) newer(name string, found error) error {
	return &store.CorruptError{Path: l.fs.Dir().Path() + "/" + name, Offset: 0, Found: found.Error(), Advice: adviceNewer}
}

// recover fills an empty Log from its directory. It changes nothing there before
// all of it was read and checked, and then makes durable what it found: the
// process before may have ended between a write and its sync, so that what can be
// read now is in the page cache only.
func (l *Log) recover(ctx context.Context) error {
	began := time.Now()
	m, err := l.loadManifest()
	if err != nil {
		return err
	}
	l.uuid, l.base, l.nextSegment, l.compacted, l.current = m.ID(), m.Base, m.NextSegment, m.Compacted, m.Base
	l.raised = m.Raised
	defer func() { l.segments = newSegmentSet(l.listed) }()
	var tail *format.Scanner
	far := newOpening(l.logger, m.Segments)
	for i, e := range m.Segments {
		seg, size, err := l.openSegment(e, m.Segments[:i])
		if err != nil {
			return err
		}
		l.listed = append(l.listed, seg)
		if tail, err = l.loadSegment(ctx, seg, listedSegment{e, size}, far); err != nil {
			return err
		}
		l.active, l.current = seg, seg.last
		far.before += seg.end
	}
	l.durable = l.current
	if l.compacted.Revision > l.current {
		return l.corrupt(format.ManifestName, -1,
			fmt.Sprintf("history is compacted up to revision %d, but the log ends at %d", l.compacted.Revision, l.current))
	}
	strays, err := l.findStrays(m)
	if err != nil {
		return err
	}
	l.finishIndex(m)
	if tail == nil {
		err = l.firstSegment()
	} else {
		err = l.secure(tail, m.Segments[len(m.Segments)-1].End)
	}
	if err == nil {
		err = l.removeStrays(strays)
	}
	switch {
	case disk.IsPassing(err):
		return &store.UnavailableError{Cause: err}
	case err != nil:
		return err
	}
	l.logger.InfoContext(ctx, "opened the log", slog.String("path", l.fs.Dir().Path()), slog.Int64("revision", l.current),
		slog.Int64("compacted", l.compacted.Revision), slog.Int("segments", len(l.listed)),
		slog.Int64("took_ms", time.Since(began).Milliseconds()))
	return nil
}

// secure makes the data durable that was read, before it is served or anything else
// is removed. Each frame was synced before the next one was written, so that the
// last one alone may not be on disk even if a sync failed; and the manifest may have been renamed
// without a sync of the directory. With Options.Early that holds for all frames behind onDisk, which is
// as far as the manifest knows the segment to be on disk.
func (l *Log) secure(tail *format.Scanner, onDisk int64) error {
	if tail.Dirty {
		l.logger.Warn("cut off a write that was not finished",
			slog.String("segment", l.active.name), slog.Int64("offset", l.active.end))
	}
	frame, err := tail.LastFrame()
	if err != nil {
		return err
	}
	if l.opts.Early { // all that the manifest does not know to be there
		if err := l.rewrite(max(onDisk, format.SegmentHeaderBytes)); err != nil {
			return err
		}
	}
	reach := int64(format.MaxFrameBytes)
	if l.opts.Early && tail.Dirty {
		reach = l.active.capacity // several writes were cut off, maybe
	}
	if err := l.resetTail(frame, reach); err != nil {
		return err
	}
	return l.keepManifest()
}

// loadManifest reads the manifest, or makes that of a new log.
func (l *Log) loadManifest() (format.Manifest, error) {
	m, err := readManifest(l.fs)
	switch {
	case isMissing(err):
		return l.found()
	case errors.Is(err, format.ErrNewerManifest):
		err = l.newer(format.ManifestName, err)
	case errors.Is(err, format.ErrBadManifest):
		err = l.corrupt(format.ManifestName, 0, err.Error())
	}
	return m, err
}

// found returns the manifest of a new log in a directory that is empty.
func (l *Log) found() (format.Manifest, error) {
	names, err := l.fs.Dir().Names()
	if err != nil {
		return format.Manifest{}, fmt.Errorf("list the log's directory: %w", err)
	}
	if slices.ContainsFunc(names, format.IsSegmentName) {
		return format.Manifest{}, l.corrupt(format.ManifestName, -1, "it is missing, and there are segments")
	}
	for _, name := range names {
		// A first start that was cut off leaves the temporary manifest behind.
		if name != disk.LockName && name != format.ManifestTemp && name != "lost+found" {
			return format.Manifest{}, &store.CorruptError{
				Path: l.fs.Dir().Path(), Offset: -1,
				Found: fmt.Sprintf("there is no %s but a file %q", format.ManifestName, name), Advice: adviceForeign,
			}
		}
	}
	var id format.StoreID
	_, _ = rand.Read(id[:]) // it never fails: crypto/rand
	return format.Manifest{UUID: hex.EncodeToString(id[:]), Base: l.opts.BaseRevision, NextSegment: format.FirstSegment}, nil
}

// firstSegment makes the first segment of a log that has none. The manifest comes
// first: without it the segment would be a foreign file.
func (l *Log) firstSegment() error {
	if err := l.keepManifest(); err != nil {
		return err
	}
	entry := format.SegmentEntry{ID: l.nextSegment, Kind: format.KindLog, First: l.base + 1, Last: l.base}
	l.nextSegment++
	seg, err := l.createSegment(entry, l.opts.SegmentBytes, 0)
	if err != nil {
		return err
	}
	l.active, l.listed = seg, []*segment{seg}
	return l.keepManifest()
}

// openSegment opens a listed segment and checks its header and its place in the
// chain: before is what is listed before it.
func (l *Log) openSegment(e format.SegmentEntry, before []format.SegmentEntry) (*segment, int64, error) {
	file, size, err := l.fs.Open(e.Name())
	if isMissing(err) {
		return nil, 0, l.corrupt(e.Name(), -1, fmt.Sprintf("the segment of revisions %d to %d is missing", e.First, e.Last))
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open segment: %w", err)
	}
	header := make([]byte, format.SegmentHeaderBytes)
	n, err := file.ReadAt(header, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, errors.Join(fmt.Errorf("read segment: %w", err), file.Close())
	}
	chain, err := format.CheckSegmentHeader(header[:n], e, l.uuid)
	at := int64(0)
	if want := max(e.End, e.Size); err == nil && size < want {
		at, err = size, fmt.Errorf("it has %d bytes where %d are expected", size, want)
	}
	if p := len(before) - 1; err == nil && e.Kind == format.KindLog && p >= 0 && before[p].Kind == format.KindLog {
		if before[p].Last+1 != e.First || before[p].Chain != chain {
			err = fmt.Errorf("it does not continue %s, which ends at revision %d", before[p].Name(), before[p].Last)
		}
	}
	if err != nil {
		damage := l.corrupt(e.Name(), at, err.Error())
		if errors.Is(err, format.ErrNewerSegment) {
			damage = l.newer(e.Name(), err)
		}
		return nil, 0, errors.Join(damage, file.Close())
	}
	return &segment{
		id: e.ID, kind: e.Kind, name: e.Name(), first: e.First, seed: format.SegmentSeed(header),
		file: file, capacity: size, sealed: e.Sealed, last: e.First - 1, end: format.SegmentHeaderBytes,
	}, size, nil
}

// listedSegment is a segment of the manifest, and how many bytes its file has.
type listedSegment struct {
	format.SegmentEntry

	fileSize int64
}

// loadSegment reads a segment into the index, up to where it is readable, and
// proves that this is its end. It returns the scanner at that offset. Reading
// and checking is done outside of the index, on another processor.
func (l *Log) loadSegment(ctx context.Context, seg *segment, listed listedSegment, far *opening) (*format.Scanner, error) {
	e, limit := listed.SegmentEntry, listed.fileSize
	if e.Sealed {
		limit = e.End
	}
	s := format.NewScanner(seg.reader(limit))
	frames, scanned := make(chan []format.Placed, framesAhead), make(chan error, 1)
	// It ends when the segment does: the loop below takes all that it sends.
	go func() {
		defer close(frames)
		scanned <- l.scanSegment(ctx, s, e, frames)
	}()
	for records := range frames {
		for _, r := range records {
			l.index.Load(r, seg.id)
			seg.live += int64(r.Size)
			l.noteTime(r.Revision, r.Millis)
		}
		if last := len(records) - 1; last >= 0 {
			far.at(ctx, records[last].Offset)
		}
	}
	if err := <-scanned; err != nil {
		return nil, err
	}
	seg.end, seg.last, seg.chain = s.Offset, s.Last, s.Chain
	if e.Sealed && (seg.last != e.Last || seg.chain != e.Chain) || seg.last < e.Last {
		return nil, l.corrupt(seg.name, s.Offset, fmt.Sprintf("it ends at revision %d, but %d was written", seg.last, e.Last))
	}
	return s, nil
}

// framesAhead is how many frames are read before the index has taken them.
const framesAhead = 16

// scanSegment sends the records of each frame, of which the values are not valid.
func (l *Log) scanSegment(ctx context.Context, s *format.Scanner, e format.SegmentEntry, frames chan<- []format.Placed) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		records, err := s.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case format.IsDamage(err):
			return l.checkEnd(s, e, err)
		case err != nil:
			return err
		}
		frames <- records
	}
}

// checkEnd decides whether the log may end where no frame could be read.
func (l *Log) checkEnd(s *format.Scanner, e format.SegmentEntry, cause error) error {
	if e.Sealed || s.Offset < e.End {
		return l.corrupt(s.Name, s.Damaged(), cause.Error())
	}
	torn, err := s.Torn()
	if err != nil {
		return err
	}
	if !torn && !l.opts.Early { // then what comes later may be on disk, and what comes first not
		return l.corrupt(s.Name, s.Damaged(), fmt.Sprintf("%v, and this is no write that was cut off", cause))
	}
	return nil
}

// finishIndex completes the index after every segment was loaded.
func (l *Log) finishIndex(m format.Manifest) {
	dropped := l.index.Finish(m.Compacted.Revision)
	byID := make(map[uint32]*segment, len(l.listed))
	for _, s := range l.listed {
		byID[s.id] = s
	}
	for _, v := range dropped {
		byID[v.Segment].live -= int64(v.Size)
	}
	l.index.Superseding(func(v, previous index.Version) { byID[v.Segment].frees += v.Frees(previous) })
	l.index.Rest = m.Rest
	for name, r := range l.index.Resources {
		// A resource whose first record is younger than Rest may have had a floor of
		// its own before that was given up: it gets Rest, as when it was made. So does one
		// of which only removed records were found.
		if _, own := m.Floors[name]; !own && (len(r.Changes) == 0 || r.Changes[0].Revision > m.Rest.Revision) {
			r.Floor = m.Rest
		}
	}
	for name, floor := range m.Floors {
		l.index.Resource(name).Floor = floor
	}
}

// removeStrays is called after the manifest is known to be durable: an older one
// may list what this one does not.
func (l *Log) removeStrays(names []string) error {
	for _, name := range names {
		if slices.ContainsFunc(l.listed, func(s *segment) bool { return s.name == name }) {
			continue // the first segment, rebuilt
		}
		if err := l.fs.Remove(name); err != nil && !isMissing(err) {
			return fmt.Errorf("remove a segment that the manifest does not list: %w", err)
		}
		l.logger.Info("removed what a crash left", slog.String("segment", name))
	}
	return nil
}
