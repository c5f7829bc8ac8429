// Package build makes the directory of a new log of versions that another log has had, such as those
// of a backup.
//
// A [Builder] takes them in any order, sorts them by their revisions with bounded memory, and writes
// them to base segments, which are in that order as those of every log are. The manifest is written
// last, so that what was not finished is no log.
package build

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

const (
	// Unfinished is the name of the directory, beside that of a log, in which one is made.
	Unfinished = "log.restoring"
	// DefaultRunBytes is how many bytes of records are sorted in memory, and the size of a segment.
	DefaultRunBytes = 32 << 20
	// activeBytes is the size of the segment in which the log continues. The next one has the usual size.
	activeBytes = 1 << 20
	// reasonReplaced is why history before the log has expired: kube.ReasonReplaced, which this package
	// does not import.
	reasonReplaced = "replaced"
)

// Builder makes one log. It is used by one goroutine at a time. After an error it is of no further use.
type Builder struct {
	// Progress is called now and then by Finish with how many records of how many it has written; nil is allowed.
	Progress func(done, total int64)

	fs     disk.FS
	id     format.StoreID
	lowest int64 // revision; 0 before the first

	records   format.Records
	sorter    sorter
	segments  segments
	resources map[string]bool
	count     int64 // of records
}

// New begins a log in a directory without one. runBytes is how many bytes of records are sorted in
// memory, and the size of a segment; 0 is DefaultRunBytes.
func New(fs disk.FS, runBytes int) *Builder {
	runBytes = cmp.Or(runBytes, DefaultRunBytes)
	b := &Builder{fs: fs, sorter: sorter{fs: fs, runBytes: runBytes}, resources: map[string]bool{}}
	_, _ = rand.Read(b.id[:]) // it never fails: crypto/rand
	b.segments = segments{
		fs: fs, id: b.id, bytes: int64(runBytes),
		next: format.FirstSegment + 1, // the first has all revisions from the first write on
	}
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
	stamp := format.Stamp{Revision: r.ModRevision, Create: r.CreateRevision, Millis: r.Time.UnixMilli()}
	if stamp.Revision != stamp.Create {
		// Not known: some version since the first one. It is compacted, so nobody looks for it.
		stamp.Previous = stamp.Create
	}
	record := b.records.New(format.KindPut, r.Key, r.Value)
	format.StampRecord(record, stamp)
	err := b.sorter.add(r.ModRevision, record)
	b.records.Release(record)
	if err != nil {
		return err
	}
	b.resources[store.ResourceOf(r.Key)] = true
	b.count++
	if b.lowest == 0 || r.ModRevision < b.lowest {
		b.lowest = r.ModRevision
	}
	return nil
}

// End says where the log continues.
type End struct {
	// From is the last revision that is known to have been assigned, To that after which the log
	// continues: what lies between may have been assigned, and is not used again.
	From, To int64
	Time     time.Time // when From was assigned
	// Shared says that records may have one revision together, as in etcd. A log has one record at each:
	// the others get the next ones that are free.
	Shared bool
}

// Finish completes the log. All history up to End.To is compacted: reads of it, and changes after a
// revision below it, are *store.CompactedError.
func (b *Builder) Finish(ctx context.Context, end End) error {
	if end.To > format.MaxRevision || end.To <= end.From {
		return fmt.Errorf("continue after revision %d, where %d were assigned, and the last one is %d: %w",
			end.To, end.From, int64(format.MaxRevision), store.ErrInvalid)
	}
	b.segments.shared = end.Shared
	if err := b.sort(ctx); err != nil {
		return err
	}
	if end.From = max(end.From, b.segments.last); end.From >= end.To {
		return fmt.Errorf("continue after revision %d, which is not above the last one, %d: %w",
			end.To, end.From, store.ErrInvalid)
	}
	active, err := b.active(end.To)
	if err != nil {
		return fmt.Errorf("make segment %s: %w", active.Name(), err)
	}
	mark := format.Mark{
		Revision: end.To, Millis: end.Time.UnixMilli(), Reason: reasonReplaced, Removed: time.Now().UnixMilli(),
	}
	m := format.Manifest{
		UUID: hex.EncodeToString(b.id[:]), Base: end.To, NextSegment: b.segments.next, Compacted: mark, Rest: mark,
		Floors: map[string]format.Mark{}, Raised: &format.Raised{From: end.From, To: end.To},
		Segments: append(b.segments.entries, active),
	}
	if b.lowest > 0 {
		m.Base = b.lowest - 1
	}
	for name := range b.resources {
		m.Floors[name] = mark
	}
	return b.commit(m)
}

// sort writes the base segments.
func (b *Builder) sort(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, b.segments.close()) }()
	const reportEvery = 256
	var done int64
	put := func(revision int64, record []byte) error {
		if done++; b.Progress != nil && (done%reportEvery == 0 || done == b.count) {
			b.Progress(done, b.count)
		}
		return b.segments.put(revision, record)
	}
	if err := b.sorter.each(ctx, put); err != nil {
		return err
	}
	return b.segments.seal()
}

// active makes the segment in which the log continues after a revision.
func (b *Builder) active(after int64) (e format.SegmentEntry, err error) {
	e = format.SegmentEntry{
		ID: b.segments.next, Kind: format.KindLog, First: after + 1, Last: after, End: format.SegmentHeaderBytes,
		Size: activeBytes,
	}
	b.segments.next++
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
