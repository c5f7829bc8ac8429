package persist

import "context"

// Payload is what frames hold that a test makes.
type Payload struct {
	Records []byte
	Count   uint32
	Packed  bool
	State   []byte
}

// EncodeState is the payload of a commit.
func EncodeState(s State) []byte { return encodeState(nil, s) }

// AppendFrames appends frames with the right checksums to the bytes of f.
func AppendFrames(b []byte, f *File, p Payload) []byte {
	one := frame{kind: records, raw: len(p.Records), records: int(p.Count)}
	if p.Packed {
		one.kind, one.raw = compressed, 1<<20
	}
	first := append(make([]byte, frameBytes), p.Records...)
	one = seal(first, one, f.chain)
	second := append(make([]byte, frameBytes), p.State...)
	seal(second, frame{kind: commit, raw: len(p.State)}, one.crc)
	return append(append(append([]byte(nil), b...), first...), second...)
}

// Write is one turn of Run.
func (w *Writer[T, S]) Write(ctx context.Context) { w.attempt(ctx) }
