package dictionary_test

import (
	"testing"

	"github.com/gapless-io/gapless/informer/internal/dictionary"
)

// BenchmarkCompress compresses similar objects of 270 bytes when the dictionary knows
// what they have in common.
func BenchmarkCompress(b *testing.B) {
	d := dictionary.New()
	texts := make([][]byte, 1000)
	for n := range texts {
		texts[n] = []byte(object(n))
		d.Compress(nil, texts[n])
	}
	b.SetBytes(int64(len(texts[0])))
	b.ReportAllocs()
	var out []byte
	for n := 0; b.Loop(); n++ {
		out = d.Compress(out[:0], texts[n%len(texts)])
	}
}
