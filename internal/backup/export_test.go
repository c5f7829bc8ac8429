package backup

import "bytes"

// Block is a block of a file that a test makes.
type Block struct {
	Kind    byte
	Count   uint32
	Payload []byte
}

// Sealed returns a file of these blocks, with the right checksums.
func Sealed(blocks ...Block) []byte {
	var file bytes.Buffer
	w := begin(&file)
	for _, b := range blocks {
		w.kind, w.count, w.block = b.Kind, b.Count, append(w.block, b.Payload...)
		w.flush()
	}
	w.write(w.sum.Sum(nil))
	return file.Bytes()
}
