// Package load finds the versions that a read needs, and reads their values from segments.
//
// It has three nouns. A [Wanted] is a version whose value is to be read. [Files] are the
// segments that it may be in. A [Placement] is the memory for values that stay where they are
// read.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// Bounds of one read: records that lie close together are read at once. A feed may select
// few of the records that it finds: what lies between them would cost it more memory and
// time than further reads.
const (
	maxBytes = 256 << 10
	// Gap is the most bytes between two records that are read at once, and FeedGap that for a
	// feed.
	Gap     = 16 << 10
	FeedGap = 1 << 10
)

// Wanted is a version whose value is to be read.
type Wanted struct {
	Key     string
	Version index.Version
	Value   []byte // the result; the caller's own
}

// File is a segment's file.
type File struct {
	At   io.ReaderAt
	Name string
	Seed uint32 // see format.SegmentSeed
}

// Files are the segments at one moment.
type Files interface {
	// File returns a segment's file.
	File(id uint32) (f File, found bool)
}

// Source is where values are read from. Advice is for who meets a damaged record.
type Source struct {
	Files  Files
	Dir    string // for messages
	Advice string
}

// Read reads the values of order from the segments and checks them. It sorts order.
func (s Source) Read(ctx context.Context, order []*Wanted) error {
	sort(order)
	var shared []byte
	for len(order) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, start, end := run(order, Gap)
		buf := shared
		if n == 1 {
			buf = make([]byte, end-start) // its value stays where it was read
		} else if int64(cap(buf)) < end-start {
			shared = make([]byte, max(end-start, maxBytes))
			buf = shared
		}
		buf = buf[:end-start]
		if err := s.readRun(order[:n], start, buf); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

func sort(order []*Wanted) {
	slices.SortFunc(order, func(a, b *Wanted) int {
		return cmp.Or(cmp.Compare(a.Version.Segment, b.Version.Segment), cmp.Compare(a.Version.Offset, b.Version.Offset))
	})
}

// run returns how many of the first wants are read at once, and from where to
// where. Not more than gap bytes lie between two of them.
func run(order []*Wanted, gap int64) (n int, start, end int64) {
	first := order[0].Version
	start, end = int64(first.Offset), int64(first.Offset)+int64(first.Size)
	for n = 1; n < len(order); n++ {
		v := order[n].Version
		next := int64(v.Offset) + int64(v.Size)
		if v.Segment != first.Segment || int64(v.Offset) > end+gap || next-start > maxBytes {
			break
		}
		end = max(end, next)
	}
	return n, start, end
}

// readRun reads wants that lie close together. It copies the values of several.
func (s Source) readRun(wants []*Wanted, start int64, buf []byte) error {
	first := wants[0]
	file, found := s.Files.File(first.Version.Segment)
	if !found {
		return fmt.Errorf("read revision %d of %q: segment %d is gone", first.Version.Revision, first.Key, first.Version.Segment)
	}
	if n, err := file.At.ReadAt(buf, start); err != nil && (n < len(buf) || !errors.Is(err, io.EOF)) {
		return fmt.Errorf("read %d bytes of %s at %d: %w", len(buf), file.Name, start, err)
	}
	for _, w := range wants {
		at := int64(w.Version.Offset) - start
		r, _, err := format.DecodeRecord(buf[at:at+int64(w.Version.Size)], file.Seed)
		if err == nil && (r.Key != w.Key || r.Revision != w.Version.Revision) {
			err = fmt.Errorf("revision %d of %q is there instead of %d of %q", r.Revision, r.Key, w.Version.Revision, w.Key)
		}
		if err != nil {
			return &store.CorruptError{
				Path: s.Dir + "/" + file.Name, Offset: int64(w.Version.Offset), Found: err.Error(), Advice: s.Advice,
			}
		}
		if w.Value = r.Value; len(wants) > 1 {
			w.Value = append(make([]byte, 0, len(r.Value)), r.Value...)
		}
	}
	return nil
}

// Placement is the memory for values, and the largest gap between two that are read at once.
type Placement struct {
	Take func(n int) []byte
	Gap  int64
}

// ReadInto is Read for values that stay where they are read.
func (s Source) ReadInto(ctx context.Context, order []*Wanted, into Placement) error {
	sort(order)
	for len(order) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, start, end := run(order, into.Gap)
		buf := into.Take(int(end - start))
		// readRun copies the values of a run of several, but not of one.
		if err := s.readRun(order[:1], start, buf); err != nil {
			return err
		}
		file, _ := s.Files.File(order[0].Version.Segment)
		for _, w := range order[1:n] {
			at := int64(w.Version.Offset) - start
			r, _, err := format.DecodeRecord(buf[at:at+int64(w.Version.Size)], file.Seed)
			if err != nil || r.Key != w.Key || r.Revision != w.Version.Revision {
				return s.readRun([]*Wanted{w}, int64(w.Version.Offset), make([]byte, w.Version.Size)) // says what is wrong
			}
			w.Value = r.Value
		}
		order = order[n:]
	}
	return nil
}
