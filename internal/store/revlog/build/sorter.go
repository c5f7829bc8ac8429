package build

import (
	"bufio"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

const (
	// runsName is the file of the runs. It is removed before there is a log.
	runsName = "runs.tmp"
	// A run is read through a buffer, of which all together have the memory of one run. These are the
	// bounds of one.
	leastBuffer = 4 << 10
	mostBuffer  = 1 << 20
)

// sorter sorts records by their revisions. It sorts as many as it has memory for, a run, and writes
// each run behind the others to a file; in the end it merges them. If all records are one run, then
// there is no file.
type sorter struct {
	fs       disk.FS
	runBytes int

	encoded []byte // the records of a run, one after the other
	run     []place
	runs    []span // in the file
}

// place is a record in sorter.encoded.
type place struct {
	revision int64
	offset   int
	size     int
}

// span is a run in the file.
type span struct{ from, to int64 }

// add adds a copy of a record.
func (s *sorter) add(revision int64, record []byte) error {
	if len(s.run) > 0 && len(s.encoded)+len(record) > s.runBytes {
		if err := s.spill(); err != nil {
			return fmt.Errorf("write what is being sorted to %s: %w", runsName, err)
		}
	}
	s.run = append(s.run, place{revision: revision, offset: len(s.encoded), size: len(record)})
	s.encoded = append(s.encoded, record...)
	return nil
}

// sorted returns the records of the run in memory, in order.
func (s *sorter) sorted() []place {
	slices.SortFunc(s.run, func(x, y place) int { return cmp.Compare(x.revision, y.revision) })
	return s.run
}

func (s *sorter) record(p place) []byte { return s.encoded[p.offset : p.offset+p.size] }

// spill writes the run in memory to the file. Its checksums, without the seed of a segment, are for the
// time that it lies there.
func (s *sorter) spill() (err error) {
	file, at, err := s.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	to := &writer{file: file, at: at}
	buffered := bufio.NewWriterSize(to, mostBuffer)
	for _, p := range s.sorted() {
		record := s.record(p)
		format.SealRecord(record, 0)
		if _, err := buffered.Write(record); err != nil {
			return err
		}
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	s.runs = append(s.runs, span{from: at, to: to.at})
	s.encoded, s.run = s.encoded[:0], s.run[:0]
	return nil
}

// open opens the file, which the caller closes, and returns where it ends.
func (s *sorter) open() (disk.File, int64, error) {
	if len(s.runs) > 0 {
		return s.fs.Open(runsName)
	}
	file, err := s.fs.Create(runsName)
	return file, 0, err
}

// writer writes to a file, from a place on.
type writer struct {
	file disk.File
	at   int64
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.file.WriteAt(p, w.at)
	w.at += int64(n)
	return n, err
}

// each calls use with all records, in the order of their revisions. A record is valid until use returns.
func (s *sorter) each(ctx context.Context, use func(revision int64, record []byte) error) error {
	if len(s.runs) == 0 {
		for _, p := range s.sorted() {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := use(p.revision, s.record(p)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("write what is being sorted to %s: %w", runsName, err)
	}
	s.encoded, s.run = nil, nil
	if err := s.merge(ctx, use); err != nil {
		return err
	}
	return s.fs.Remove(runsName)
}

// merge is each for the runs in the file.
func (s *sorter) merge(ctx context.Context, use func(revision int64, record []byte) error) (err error) {
	file, _, err := s.open()
	if err != nil {
		return fmt.Errorf("open what was sorted: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := min(max(s.runBytes/len(s.runs), leastBuffer), mostBuffer)
	var next byRevision
	for _, r := range s.runs {
		c := &cursor{bytes: bufio.NewReaderSize(io.NewSectionReader(file, r.from, r.to-r.from), buffer)}
		if err := c.advance(); err != nil {
			return err
		}
		next = append(next, c)
	}
	heap.Init(&next)
	var memory []byte
	for len(next) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c := next[0]
		if memory, err = c.read(memory); err != nil {
			return err
		}
		if err := use(c.revision, memory); err != nil {
			return err
		}
		switch err := c.advance(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&next)
		case err != nil:
			return err
		default:
			heap.Fix(&next, 0)
		}
	}
	return nil
}

// cursor reads a run. It has its next record in no memory but the buffer, since records may be large.
type cursor struct {
	bytes    *bufio.Reader
	revision int64 // of the next record
	size     int
}

// advance looks at the next record; io.EOF if there is none.
func (c *cursor) advance() error {
	head, err := c.bytes.Peek(format.RecordHeaderBytes)
	switch {
	case errors.Is(err, io.EOF) && len(head) == 0:
		return io.EOF
	case err != nil:
		return unreadable(err)
	}
	c.revision, c.size = format.RecordHead(head)
	if c.size < format.RecordHeaderBytes || c.size > format.MaxRecordBytes {
		return unreadable(fmt.Errorf("a record of %d bytes: %w", c.size, format.ErrBadRecord))
	}
	return nil
}

// read returns the next record, in memory if that has room for it.
func (c *cursor) read(memory []byte) ([]byte, error) {
	memory = slices.Grow(memory[:0], c.size)[:c.size]
	if _, err := io.ReadFull(c.bytes, memory); err != nil {
		return nil, unreadable(err)
	}
	if _, _, err := format.DecodeRecord(memory, 0); err != nil {
		return nil, unreadable(err)
	}
	return memory, nil
}

func unreadable(err error) error {
	return fmt.Errorf("read what was sorted from %s: %w", runsName, err)
}

// byRevision is a heap.
type byRevision []*cursor

// Len implements heap.Interface.
func (h *byRevision) Len() int { return len(*h) }

// Less implements heap.Interface.
func (h *byRevision) Less(i, j int) bool { return (*h)[i].revision < (*h)[j].revision }

// Swap implements heap.Interface.
func (h *byRevision) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

// Push implements heap.Interface.
func (h *byRevision) Push(c any) { *h = append(*h, c.(*cursor)) }

// Pop implements heap.Interface.
func (h *byRevision) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
