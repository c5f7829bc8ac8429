package revlog

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
	maxReadBytes = 256 << 10
	// pageGap is the most bytes between two records that are read at once, and feedGap that for
	// a feed.
	pageGap = 16 << 10
	feedGap = 1 << 10
)

// wanted is a version whose value is to be read.
type wanted struct {
	key     string
	version index.Version
	value   []byte // the result; the caller's own
}

// loader reads values from the segments of one set.
type loader struct {
	set *segmentSet
	dir string // for messages
}

// read reads the values of order and checks them. It sorts order.
func (l loader) read(ctx context.Context, order []*wanted) error {
	sortByPlace(order)
	var shared []byte
	for len(order) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, start, end := runOf(order, pageGap)
		buf := shared
		if n == 1 {
			buf = make([]byte, end-start) // its value stays where it was read
		} else if int64(cap(buf)) < end-start {
			shared = make([]byte, max(end-start, maxReadBytes))
			buf = shared
		}
		buf = buf[:end-start]
		if err := l.readRun(order[:n], start, buf); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

func sortByPlace(order []*wanted) {
	slices.SortFunc(order, func(a, b *wanted) int {
		return cmp.Or(cmp.Compare(a.version.Segment, b.version.Segment), cmp.Compare(a.version.Offset, b.version.Offset))
	})
}

// runOf returns how many of the first wants are read at once, and from where to
// where. Not more than gap bytes lie between two of them.
func runOf(order []*wanted, gap int64) (n int, start, end int64) {
	first := order[0].version
	start, end = int64(first.Offset), int64(first.Offset)+int64(first.Size)
	for n = 1; n < len(order); n++ {
		v := order[n].version
		next := int64(v.Offset) + int64(v.Size)
		if v.Segment != first.Segment || int64(v.Offset) > end+gap || next-start > maxReadBytes {
			break
		}
		end = max(end, next)
	}
	return n, start, end
}

// readRun reads wants that lie close together. It copies the values of several.
func (l loader) readRun(wants []*wanted, start int64, buf []byte) error {
	first := wants[0]
	seg := l.set.byID[first.version.Segment]
	if seg == nil {
		return fmt.Errorf("read revision %d of %q: segment %d is gone", first.version.Revision, first.key, first.version.Segment)
	}
	if n, err := seg.file.ReadAt(buf, start); err != nil && (n < len(buf) || !errors.Is(err, io.EOF)) {
		return fmt.Errorf("read %d bytes of %s at %d: %w", len(buf), seg.name, start, err)
	}
	for _, w := range wants {
		at := int64(w.version.Offset) - start
		r, _, err := format.DecodeRecord(buf[at:at+int64(w.version.Size)], seg.seed)
		if err == nil && (r.Key != w.key || r.Revision != w.version.Revision) {
			err = fmt.Errorf("revision %d of %q is there instead of %d of %q", r.Revision, r.Key, w.version.Revision, w.key)
		}
		if err != nil {
			return &store.CorruptError{
				Path: l.dir + "/" + seg.name, Offset: int64(w.version.Offset), Found: err.Error(), Advice: adviceRestore,
			}
		}
		if w.value = r.Value; len(wants) > 1 {
			w.value = append(make([]byte, 0, len(r.Value)), r.Value...)
		}
	}
	return nil
}

// placement is the memory for values that stay where they are read, and the largest gap between
// two that are read at once.
type placement struct {
	take func(n int) []byte
	gap  int64
}

// readInto is read for values that stay where they are read.
func (l loader) readInto(ctx context.Context, order []*wanted, into placement) error {
	sortByPlace(order)
	for len(order) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, start, end := runOf(order, into.gap)
		buf := into.take(int(end - start))
		// readRun copies the values of a run of several, but not of one.
		if err := l.readRun(order[:1], start, buf); err != nil {
			return err
		}
		seg := l.set.byID[order[0].version.Segment]
		for _, w := range order[1:n] {
			at := int64(w.version.Offset) - start
			r, _, err := format.DecodeRecord(buf[at:at+int64(w.version.Size)], seg.seed)
			if err != nil || r.Key != w.key || r.Revision != w.version.Revision {
				return l.readRun([]*wanted{w}, int64(w.version.Offset), make([]byte, w.version.Size)) // says what is wrong
			}
			w.value = r.Value
		}
		order = order[n:]
	}
	return nil
}
