// Package build makes the directory of a new log of versions that another log has had, such as those
// of a backup.
//
// A [Builder] writes them to base segments, in runs: it sorts as many as it has memory for by their
// revisions. The manifest is written last, so that what was not finished is no log.
package build

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

const (
	// Unfinished is the name of the directory, beside that of a log, in which one is made.
	Unfinished = "log.restoring"
	// DefaultRunBytes is how many bytes of records are sorted at once, and so the size of a segment.
	DefaultRunBytes = 32 << 20
	// frameBytes is where a frame ends.
	frameBytes = 1 << 20
	// activeBytes is the size of the segment in which the log continues. The next one has the usual size.
	activeBytes = 1 << 20
	// reasonReplaced is why history before the log has expired: kube.ReasonReplaced, which this package
	// does not import.
	reasonReplaced = "replaced"
)

// Builder makes one log. It is used by one goroutine at a time. After an error it is of no further use.
type Builder struct {
	fs       disk.FS
	id       format.StoreID
	runBytes int

	records format.Records
	encoded []byte // records, one after the other
	frame   []byte // memory for one
	run     []place
	next    uint32 // id of the next segment
	entries []format.SegmentEntry
	lowest  int64 // revision; 0 before the first

	resources map[string]bool
}

// place is a record in Builder.encoded.
type place struct {
	revision int64
	offset   int
	size     int
}

// New begins a log in a directory without one. runBytes is how many bytes of records are sorted at
// once; 0 is DefaultRunBytes.
func New(fs disk.FS, runBytes int) *Builder {
	b := &Builder{
		fs: fs, runBytes: cmp.Or(runBytes, DefaultRunBytes), resources: map[string]bool{},
		next: format.FirstSegment + 1, // the first has all revisions from the first write on
	}
	_, _ = rand.Read(b.id[:]) // it never fails: crypto/rand
	return b
}

// Put adds what a key holds: each key once, in any order.
func (b *Builder) Put(r store.Record) error {
	switch {
	case !format.ValidKey(r.Key) || len(r.Key) > format.MaxKeyBytes:
		return fmt.Errorf("key %.100q is not of the form resource/rest, or has %d bytes: %w", r.Key, len(r.Key), store.ErrInvalid)
	case len(r.Value) > format.MaxValueBytes:
		return &store.TooLargeError{What: "value", Bytes: len(r.Value), Limit: format.MaxValueBytes}
	case r.CreateRevision < 1 || r.ModRevision < r.CreateRevision || r.ModRevision > format.MaxRevision:
		return fmt.Errorf("%q at revision %d, created at %d: %w", r.Key, r.ModRevision, r.CreateRevision, store.ErrInvalid)
	}
	size := format.RecordSize(r.Key, r.Value)
	if len(b.run) > 0 && len(b.encoded)+size > b.runBytes {
		if err := b.flush(); err != nil {
			return err
		}
	}
	stamp := format.Stamp{Revision: r.ModRevision, Create: r.CreateRevision, Millis: r.Time.UnixMilli()}
	if stamp.Revision != stamp.Create {
		// Not known: some version since the first one. It is compacted, so nobody looks for it.
		stamp.Previous = stamp.Create
	}
	record := b.records.New(format.KindPut, r.Key, r.Value)
	format.StampRecord(record, stamp)
	b.run = append(b.run, place{revision: r.ModRevision, offset: len(b.encoded), size: len(record)})
	b.encoded = append(b.encoded, record...)
	b.records.Release(record)
	b.resources[store.ResourceOf(r.Key)] = true
	if b.lowest == 0 || r.ModRevision < b.lowest {
		b.lowest = r.ModRevision
	}
	return nil
}

// flush writes the run as a base segment.
func (b *Builder) flush() (err error) {
	if len(b.run) == 0 {
		return nil
	}
	slices.SortFunc(b.run, func(x, y place) int { return cmp.Compare(x.revision, y.revision) })
	e := format.SegmentEntry{
		ID: b.next, Kind: format.KindBase, First: b.run[0].revision, Last: b.run[len(b.run)-1].revision,
		End: format.SegmentHeaderBytes, Sealed: true,
	}
	b.next++
	file, err := b.fs.Create(e.Name())
	if err != nil {
		return fmt.Errorf("create segment %s: %w", e.Name(), err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	header := format.EncodeSegmentHeader(e, b.id, 0)
	if _, err := file.WriteAt(header, 0); err != nil {
		return fmt.Errorf("write %s: %w", e.Name(), err)
	}
	seed := format.SegmentSeed(header)
	for rest := b.run; len(rest) > 0; {
		n, bytes := 0, 0
		for n < len(rest) && (n == 0 || bytes+rest[n].size <= frameBytes) {
			if n > 0 && rest[n].revision == rest[n-1].revision {
				return fmt.Errorf("two records have the revision %d: %w", rest[n].revision, store.ErrInvalid)
			}
			bytes += rest[n].size
			n++
		}
		frame, f := b.frameOf(rest[:n], e, seed)
		if _, err := file.WriteAt(frame, e.End); err != nil {
			return fmt.Errorf("write %s: %w", e.Name(), err)
		}
		e.End, e.Chain = e.End+f.Size(), f.Payload
		rest = rest[n:]
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", e.Name(), err)
	}
	b.entries = append(b.entries, e)
	b.encoded, b.run = b.encoded[:0], b.run[:0]
	return nil
}

// frameOf returns the frame that some records make at the end of a segment, which is valid until the next one.
func (b *Builder) frameOf(records []place, e format.SegmentEntry, seed uint32) ([]byte, format.Frame) {
	b.frame = append(b.frame[:0], make([]byte, format.FrameHeaderBytes)...)
	for _, p := range records {
		record := b.encoded[p.offset : p.offset+p.size]
		format.SealRecord(record, seed)
		b.frame = append(b.frame, record...)
	}
	var f format.Frame
	b.frame, f = format.SealFrame(b.frame,
		format.Frame{Count: len(records), First: records[0].revision, Chain: e.Chain}, seed, e.End)
	return b.frame, f
}

// End says where the log continues.
type End struct {
	// From is the last revision that is known to have been assigned, To that after which the log
	// continues: what lies between may have been assigned, and is not used again.
	From, To int64
	Time     time.Time // when From was assigned
}

// Finish completes the log. All history up to End.To is compacted: reads of it, and changes after a
// revision below it, are *store.CompactedError.
func (b *Builder) Finish(end End) error {
	if end.To > format.MaxRevision || end.To <= end.From {
		return fmt.Errorf("continue after revision %d, where %d were assigned, and the last one is %d: %w",
			end.To, end.From, int64(format.MaxRevision), store.ErrInvalid)
	}
	if err := b.flush(); err != nil {
		return err
	}
	active, err := b.active(end.To)
	if err != nil {
		return fmt.Errorf("make segment %s: %w", active.Name(), err)
	}
	slices.SortFunc(b.entries, func(x, y format.SegmentEntry) int { return cmp.Compare(x.First, y.First) })
	mark := format.Mark{
		Revision: end.To, Millis: end.Time.UnixMilli(), Reason: reasonReplaced, Removed: time.Now().UnixMilli(),
	}
	m := format.Manifest{
		UUID: hex.EncodeToString(b.id[:]), Base: end.To, NextSegment: b.next, Compacted: mark, Rest: mark,
		Floors: map[string]format.Mark{}, Raised: &format.Raised{From: end.From, To: end.To},
		Segments: append(b.entries, active),
	}
	if b.lowest > 0 {
		m.Base = b.lowest - 1
	}
	for name := range b.resources {
		m.Floors[name] = mark
	}
	return b.commit(m)
}

// active makes the segment in which the log continues after a revision.
func (b *Builder) active(after int64) (e format.SegmentEntry, err error) {
	e = format.SegmentEntry{
		ID: b.next, Kind: format.KindLog, First: after + 1, Last: after, End: format.SegmentHeaderBytes, Size: activeBytes,
	}
	b.next++
	file, err := b.fs.Create(e.Name())
	if err != nil {
		return e, err
	}
	err = file.Allocate(e.Size)
	if err == nil {
		_, err = file.WriteAt(format.EncodeSegmentHeader(e, b.id, 0), 0)
	}
	if err == nil {
		err = file.Sync()
	}
	return e, errors.Join(err, file.Close())
}

// commit writes the manifest.
func (b *Builder) commit(m format.Manifest) error {
	if err := m.Check(); err != nil {
		return err
	}
	body, err := format.EncodeManifest(m)
	if err != nil {
		return err
	}
	file, err := b.fs.Create(format.ManifestTemp)
	if err != nil {
		return fmt.Errorf("create the manifest: %w", err)
	}
	if _, err = file.WriteAt(body, 0); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	if err := b.fs.Dir().Sync(); err != nil { // the segments are there before what lists them
		return err
	}
	if err := errors.Join(b.fs.Rename(format.ManifestTemp, format.ManifestName), b.fs.Dir().Sync()); err != nil {
		return fmt.Errorf("put the manifest in its place: %w", err)
	}
	return nil
}
