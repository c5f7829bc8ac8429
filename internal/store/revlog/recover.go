package revlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

const (
	adviceRestore = "nothing was changed; restore the directory from a backup or use an empty one"
	adviceForeign = "give the log a directory of its own, or an empty one"
	adviceNewer   = "use the version of the program that wrote it, or an empty directory"
)

func (l *Log) corrupt(name string, off int64, found string) error {
	return &store.CorruptError{Path: l.fs.Dir().Path() + "/" + name, Offset: off, Found: found, Advice: adviceRestore}
}

// recover fills an empty Log from its directory. It changes nothing there before
// all of it was read and found right.
func (l *Log) recover(ctx context.Context) error {
	began := time.Now()
	m, err := readManifest(l.fs)
	switch {
	case isMissing(err):
		m, err = l.found()
	case errors.Is(err, format.ErrNewerManifest):
		err = &store.CorruptError{Path: l.fs.Dir().Path() + "/" + format.ManifestName, Offset: 0, Found: err.Error(), Advice: adviceNewer}
	case errors.Is(err, format.ErrBadManifest):
		err = l.corrupt(format.ManifestName, 0, err.Error())
	}
	if err != nil {
		return err
	}
	l.uuid, l.base, l.nextSegment, l.compacted, l.current = m.ID(), m.Base, m.NextSegment, m.Compacted, m.Base
	var opened []*segment
	defer func() {
		l.segments = newSegmentSet(opened)
	}()
	var tail *scanner
	for i, e := range m.Segments {
		seg, size, err := l.openSegment(e, m.Segments[:i])
		if err != nil {
			return err
		}
		opened = append(opened, seg)
		if tail, err = l.loadSegment(ctx, seg, e, size); err != nil {
			return err
		}
		l.active, l.current = seg, seg.last
	}
	if l.compacted.Revision > l.current {
		return l.corrupt(format.ManifestName, -1, fmt.Sprintf("history is forgotten up to revision %d, but the log ends at %d", l.compacted.Revision, l.current))
	}
	l.settle(m, opened)
	if err := l.clean(m); err != nil {
		return err
	}
	if tail != nil {
		err = l.cutTail(tail)
	} else {
		opened, err = l.firstSegment()
	}
	l.logger.InfoContext(ctx, "opened the log", slog.String("path", l.fs.Dir().Path()), slog.Int64("revision", l.current),
		slog.Int64("compacted", l.compacted.Revision), slog.Int("segments", len(opened)),
		slog.Int64("took_ms", time.Since(began).Milliseconds()))
	return err
}

// found writes the manifest of a new log into a directory that is empty.
func (l *Log) found() (format.Manifest, error) {
	names, err := l.fs.Dir().Names()
	if err != nil {
		return format.Manifest{}, fmt.Errorf("list the log's directory: %w", err)
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
	m := format.Manifest{UUID: hex.EncodeToString(id[:]), Base: l.opts.BaseRevision, NextSegment: 1}
	if err := writeManifest(l.fs, m); err != nil {
		if disk.IsNoSpace(err) {
			return format.Manifest{}, &store.NoSpaceError{Cause: err}
		}
		return format.Manifest{}, err
	}
	return m, nil
}

// firstSegment makes the first segment of a log that has none.
func (l *Log) firstSegment() ([]*segment, error) {
	entry := format.SegmentEntry{ID: l.nextSegment, Kind: format.KindLog, First: l.base + 1, Last: l.base}
	l.nextSegment++
	seg, err := l.createSegment(entry, l.opts.SegmentBytes, 0)
	if err == nil {
		l.active = seg
		err = l.switchManifest(func(m *format.Manifest) { m.Segments = []format.SegmentEntry{seg.entry()} })
	}
	if err != nil && disk.IsNoSpace(err) {
		err = &store.NoSpaceError{Cause: err}
	}
	if seg == nil {
		return nil, err
	}
	return []*segment{seg}, err
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
	if want := max(e.End, e.Size); err == nil && size < want {
		err = fmt.Errorf("it has %d bytes where %d are expected", size, want)
	}
	if p := len(before) - 1; err == nil && e.Kind == format.KindLog && p >= 0 && before[p].Kind == format.KindLog {
		if before[p].Last+1 != e.First || before[p].Chain != chain {
			err = fmt.Errorf("it does not continue %s, which ends at revision %d", before[p].Name(), before[p].Last)
		}
	}
	if err != nil {
		return nil, 0, errors.Join(l.corrupt(e.Name(), 0, err.Error()), file.Close())
	}
	return &segment{
		id: e.ID, kind: e.Kind, name: e.Name(), first: e.First, seed: format.SegmentSeed(header),
		file: file, capacity: size, sealed: e.Sealed, last: e.First - 1, end: format.SegmentHeaderBytes,
	}, size, nil
}

// loadSegment reads a segment into the index, up to where it is readable, and
// proves that this is its end. It returns the scanner, which stands there.
func (l *Log) loadSegment(ctx context.Context, seg *segment, e format.SegmentEntry, size int64) (*scanner, error) {
	limit := size
	if e.Sealed {
		limit = e.End
	}
	s := newScanner(seg, limit)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		records, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if isDamage(err) {
			if err := l.checkEnd(s, e, err); err != nil {
				return nil, err
			}
			break
		}
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			l.index.load(r, seg.id)
			seg.live += int64(r.Size)
			l.lastMillis = max(l.lastMillis, r.Millis)
		}
	}
	seg.end, seg.last, seg.chain = s.off, s.last, s.chain
	if e.Sealed && (seg.last != e.Last || seg.chain != e.Chain) || seg.last < e.Last {
		return nil, l.corrupt(seg.name, s.off, fmt.Sprintf("it ends at revision %d, but %d was written", seg.last, e.Last))
	}
	return s, nil
}

// checkEnd decides whether the log may end where no frame could be read.
func (l *Log) checkEnd(s *scanner, e format.SegmentEntry, cause error) error {
	if e.Sealed || s.off < e.End {
		return l.corrupt(s.seg.name, s.off, cause.Error())
	}
	torn, err := s.torn()
	if err != nil {
		return err
	}
	if !torn {
		return l.corrupt(s.seg.name, s.off, fmt.Sprintf("%v, and this is no write that was cut off", cause))
	}
	return nil
}

// settle completes the index after every segment was loaded.
func (l *Log) settle(m format.Manifest, opened []*segment) {
	dropped := l.index.finish(m.Compacted.Revision)
	byID := make(map[uint32]*segment, len(opened))
	for _, s := range opened {
		byID[s.id] = s
	}
	for _, v := range dropped {
		byID[v.segment].live -= int64(v.size)
	}
	for name, floor := range m.Floors {
		l.index.resource(name).floor = floor
	}
	l.lastMillis = max(l.lastMillis, m.Compacted.Millis)
}

// clean removes files that a crash left behind: of a segment that was not listed
// yet, or not listed any more. It refuses what it cannot explain.
func (l *Log) clean(m format.Manifest) error {
	names, err := l.fs.Dir().Names()
	if err != nil {
		return fmt.Errorf("list the log's directory: %w", err)
	}
	listed := map[string]bool{}
	for _, e := range m.Segments {
		listed[e.Name()] = true
	}
	for _, name := range names {
		ours := strings.HasSuffix(name, ".log") && (strings.HasPrefix(name, "seg-") || strings.HasPrefix(name, "base-"))
		if !ours || listed[name] {
			continue
		}
		if err := l.checkStray(name, m); err != nil {
			return err
		}
		if err := l.fs.Remove(name); err != nil {
			return fmt.Errorf("remove what a crash left: %w", err)
		}
		l.logger.Info("removed what a crash left", slog.String("segment", name))
	}
	return nil
}

// checkStray refuses a log segment that is not listed although it is newer than
// the manifest and has records: then the manifest is an old one.
func (l *Log) checkStray(name string, m format.Manifest) error {
	file, _, err := l.fs.Open(name)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	b := make([]byte, format.SegmentHeaderBytes+format.FrameHeaderBytes)
	n, err := file.ReadAt(b, 0)
	if err = errors.Join(err, file.Close()); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read segment: %w", err)
	}
	if n < len(b) || string(b[:8]) != format.SegmentMagic {
		return nil
	}
	_, err = format.DecodeFrame(b[format.SegmentHeaderBytes:], format.SegmentSeed(b), format.SegmentHeaderBytes)
	id := format.SegmentHeaderID(b)
	if err == nil && id >= m.NextSegment && strings.HasPrefix(name, "seg-") {
		return l.corrupt(name, -1, fmt.Sprintf("it is newer than the %s", format.ManifestName))
	}
	return nil
}

// cutTail gives the active segment a clean end. What it cuts was never
// acknowledged; it must not stay, because a later crash would make it look like
// something that was.
func (l *Log) cutTail(tail *scanner) error {
	if !tail.dirty {
		return nil
	}
	seg := tail.seg
	l.logger.Warn("cut off a write that was not finished", slog.String("segment", seg.name), slog.Int64("offset", seg.end))
	zeros := make([]byte, scanBytes)
	for off := seg.end; off < seg.capacity; off += scanBytes {
		if _, err := seg.file.WriteAt(zeros[:min(scanBytes, seg.capacity-off)], off); err != nil {
			return fmt.Errorf("cut the log's tail: %w", err)
		}
	}
	if err := seg.file.Sync(); err != nil {
		return fmt.Errorf("cut the log's tail: %w", err)
	}
	return nil
}
