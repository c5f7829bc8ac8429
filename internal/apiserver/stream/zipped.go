package stream

import "github.com/gapless-io/gapless/internal/apiserver/blockzip"

// zipped is a body as one gzip member, from its first piece to its end: some readers
// stop after the first of several members (OkHttp 5, tower-http). Each piece is
// compressed separately, so that an idle stream needs no compressor: it holds less
// than 200 bytes. Upstream makes a member of each piece (apiserver handlers/watch.go
// perFlushGzipWriter).
type zipped struct {
	member *blockzip.Stream // nil until the first piece
	piece  *[]byte          // what member has written; nil between pieces
}

// Write implements io.Writer for the member.
func (z *zipped) Write(p []byte) (int, error) {
	*z.piece = append(*z.piece, p...)
	return len(p), nil
}

// deflate returns a piece with p compressed.
func (z *zipped) deflate(p []byte) *[]byte {
	z.open()
	z.member.Deflate(p)
	return z.take()
}

// close returns the piece that ends the member.
func (z *zipped) close() *[]byte {
	z.open()
	_ = z.member.Close() // Write does not fail
	return z.take()
}

func (z *zipped) open() {
	z.piece = piece()
	if z.member == nil {
		z.member = blockzip.NewStream(z)
	}
}

func (z *zipped) take() *[]byte {
	b := z.piece
	z.piece = nil
	return b
}
