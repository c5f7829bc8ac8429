package fsck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// segment is one segment of the log and what scanning it has found.
type segment struct {
	entry    format.SegmentEntry
	id       format.StoreID
	file     *file // nil if it is missing
	listed   bool  // entry is the manifest's; else only its header is known
	headless bool  // the header is damaged, and entry says what it was
	active   bool  // the last one, which was written to

	bad     bool    // it has to be rewritten
	patches []patch // bytes that repair it exactly, if it is not bad
	last    int64   // revision of the last record
	chain   uint32
}

// patch is a correction of some bytes that a checksum proves. An empty one
// extends the file with zeros.
type patch struct {
	offset int64
	bytes  []byte
}

// piece is a result of a scan: a whole record, or bytes that are not a record.
type piece struct {
	record format.Placed
	whole  bool
	bad    []byte // the unreadable bytes, where whole is false
}

// padByte fills frames up, as the package format has it.
const padByte = 0xa5

// scan walks over the bytes of one segment.
type scan struct {
	c       *check
	s       *segment
	b       []byte
	seed    uint32
	off     int64
	limit   int64
	chain   uint32 // 0 together with unknown: the frame before was damaged
	unknown bool
	last    int64
	reached int64 // revision in the frames' headers
}

// read returns the whole file.
func (s *segment) read() ([]byte, error) {
	b := make([]byte, s.file.size)
	n, err := s.file.disk.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", s.file.name, err)
	}
	return b[:n], nil
}

// seed is that of the checksums, by what the header should be.
func (s *segment) seed() uint32 {
	return format.SegmentSeed(format.EncodeSegmentHeader(s.entry, s.id, 0))
}

// frame decodes the frame at off, if all of it is right.
func (w *scan) frame(off int64) (format.Frame, []format.Placed, bool) {
	f, ok := w.header(off)
	if !ok || off+f.Size() > w.limit {
		return f, nil, false
	}
	records, err := format.DecodePayload(f, w.b[off+format.FrameHeaderBytes:][:f.Bytes], w.seed, off)
	return f, records, err == nil
}

func (w *scan) header(off int64) (format.Frame, bool) {
	if off+format.FrameHeaderBytes > w.limit {
		return format.Frame{}, false
	}
	if !format.IsFrame(w.b[off:]) {
		return format.Frame{}, false
	}
	f, err := format.DecodeFrame(w.b[off:], w.seed, off)
	return f, err == nil
}

// nextFrame returns where behind off a frame begins, or where the zeros begin that
// reach to the end, or the end.
func (w *scan) nextFrame(off int64) (at int64, found bool) {
	for at = off + format.FrameAlign; at < w.limit; at += format.FrameAlign {
		if _, ok := w.header(at); ok {
			return at, true
		}
	}
	for at = w.limit; at > off && w.b[at-1] == 0; {
		at--
	}
	if at == off {
		return w.limit, false
	}
	return min(w.limit, (at+format.FrameAlign-1)/format.FrameAlign*format.FrameAlign), false
}

// zeros reports whether only zeros follow from off to the end of the file.
func (w *scan) zeros(off int64) bool {
	return len(bytes.TrimLeft(w.b[min(off, int64(len(w.b))):], "\x00")) == 0
}

// torn reports whether what is at off can be the rest of a write that was cut off: some
// sector of it was never written, and no frame follows. It is the rule of the engine.
func (w *scan) torn(off int64) bool {
	const sector = 512
	if w.zeros(off) {
		return true
	}
	if _, follows := w.nextFrame(off); follows {
		return false
	}
	if head := w.b[off:min(off+format.FrameHeaderBytes, w.limit)]; len(bytes.TrimLeft(head, "\x00")) == 0 {
		return true
	}
	f, ok := w.header(off)
	if !ok || off+f.Size() > w.limit {
		return false
	}
	for from := off; from < off+f.Size(); {
		to := min(off+f.Size(), from+sector-from%sector)
		if len(bytes.TrimLeft(w.b[from:to], "\x00")) == 0 {
			return true
		}
		from = to
	}
	return false
}

// region is damage: where it begins and ends, and what could be read in it.
type region struct {
	off, end int64
	head     format.Frame // zero if the frame's header is damaged
	readable bool         // head is right
	follows  bool         // a frame follows at end
	pieces   []piece
}

// salvage reads the intact records in the damage at the scan's offset.
func (w *scan) salvage() region {
	r := region{off: w.off}
	r.head, r.readable = w.header(w.off)
	r.end, r.follows = w.nextFrame(w.off)
	stop := r.end
	if r.readable {
		stop = min(w.off+format.FrameHeaderBytes+int64(r.head.Bytes), w.limit)
		r.end = min(w.off+r.head.Size(), w.limit)
		_, r.follows = w.header(r.end)
		w.reached = max(w.reached, r.head.First+int64(r.head.Count)-1)
	}
	for at := min(w.off+format.FrameHeaderBytes, stop); at < stop; {
		if record, size, ok := w.record(at, stop); ok {
			r.pieces = append(r.pieces, piece{record: format.Placed{Record: record, Offset: at, Size: size}, whole: true})
			at += int64(size)
			continue
		}
		from := at
		to := w.step(at, stop)
		for at = to; at < stop; at = w.step(at, stop) {
			if _, _, ok := w.record(at, stop); ok || at == to && at != from+8 {
				break
			}
		}
		if stop-from < format.RecordHeaderBytes && !r.readable {
			break // the padding behind the records
		}
		r.pieces = append(r.pieces, piece{record: format.Placed{Offset: from}, bad: w.b[from:at]})
	}
	return r
}

// step returns where the next record may begin: behind the one at off if its size
// can be read and leads to a record or to the end, else 8 bytes later.
func (w *scan) step(off, stop int64) int64 {
	if off+format.RecordHeaderBytes <= stop {
		to := off + int64(binary.LittleEndian.Uint32(w.b[off+4:]))
		if to >= off+format.RecordHeaderBytes && to <= stop && to%8 == 0 {
			if _, _, ok := w.record(to, stop); ok || stop-to < format.FrameAlign {
				return to
			}
		}
	}
	return min(off+8, stop)
}

// record decodes the whole record at off.
func (w *scan) record(off, stop int64) (format.Record, int, bool) {
	if off+format.RecordHeaderBytes > stop {
		return format.Record{}, 0, false
	}
	size := int64(binary.LittleEndian.Uint32(w.b[off+4:]))
	if size < format.RecordHeaderBytes || size%8 != 0 || off+size > stop { // no record, and cheaper than asking
		return format.Record{}, 0, false
	}
	if _, _, err := format.ParseRecord(w.b[off : off+size]); err != nil { // cheaper than the checksum
		return format.Record{}, 0, false
	}
	r, n, err := format.DecodeRecord(w.b[off:off+size], w.seed)
	return r, n, err == nil
}

// restored is a damaged frame in its original form, which a checksum proves.
type restored struct {
	patches []patch
	records []format.Placed // nil if there is no proof
	frame   format.Frame
	found   string
	offset  int64 // where the damage begins, as a start of the server says it
}

// restore returns the original frame of the region, if a checksum proves it.
func (w *scan) restore(r region) restored {
	if r.readable {
		return w.restoreRecord(r)
	}
	return w.restoreHeader(r)
}

// restoreRecord corrects the checksums of records, proven by that of the frame.
func (w *scan) restoreRecord(r region) restored {
	at := r.off + format.FrameHeaderBytes
	if at+int64(r.head.Bytes) > w.limit {
		return restored{}
	}
	payload := bytes.Clone(w.b[at:][:r.head.Bytes])
	m := restored{frame: r.head, found: "the checksum of a record is damaged"}
	for _, p := range r.pieces {
		if p.whole {
			continue
		}
		from := p.record.Offset - at
		_, size, err := format.ParseRecord(payload[from:])
		if err != nil || size != len(p.bad) {
			return restored{}
		}
		format.SealRecord(payload[from:from+int64(size)], w.seed)
		m.patches = append(m.patches, patch{offset: p.record.Offset, bytes: payload[from : from+4]})
	}
	m.offset = r.off
	if len(m.patches) > 0 {
		m.offset = m.patches[0].offset
	}
	if len(m.patches) == 0 { // only the padding is gone
		pad := bytes.Repeat([]byte{padByte}, int(r.head.Size())-format.FrameHeaderBytes-r.head.Bytes)
		m.patches, m.found = []patch{{offset: at + int64(r.head.Bytes), bytes: pad}}, "the padding behind the records is gone"
	}
	var err error
	if m.records, err = format.DecodePayload(r.head, payload, w.seed, r.off); err != nil {
		return restored{}
	}
	return m
}

// restoreHeader makes the header of a frame of which every record is whole, proven by
// the chain in the frame behind it, or where none follows by the revisions.
func (w *scan) restoreHeader(r region) restored {
	m := restored{found: "the frame's header is damaged", offset: r.off}
	end := r.off + format.FrameHeaderBytes
	for _, p := range r.pieces {
		if !p.whole || p.record.Offset != end {
			return restored{}
		}
		m.records = append(m.records, p.record)
		end += int64(p.record.Size)
	}
	if len(m.records) == 0 || w.unknown {
		return restored{}
	}
	b := append(make([]byte, format.FrameHeaderBytes), w.b[r.off+format.FrameHeaderBytes:end]...)
	b, m.frame = format.SealFrame(b, format.Frame{Count: len(m.records), First: m.records[0].Revision, Chain: w.chain}, w.seed,
		r.off)
	if r.off+int64(len(b)) != r.end {
		return restored{}
	}
	switch next, ok := w.header(r.end); {
	case ok && next.Chain != m.frame.Payload:
		return restored{}
	case !ok && w.s.listed && w.s.entry.Sealed && w.s.entry.Chain != m.frame.Payload:
		return restored{}
	}
	at := 0
	for at < format.FrameHeaderBytes-1 && b[at] == w.b[r.off+int64(at)] {
		at++
	}
	m.patches = []patch{{offset: r.off + int64(at), bytes: b[at:format.FrameHeaderBytes]}}
	return m
}
