package compress_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver/compress"
)

// pieces records how an answer is written.
type pieces struct {
	httptest.ResponseRecorder
	sizes []int
}

func (w *pieces) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	return w.ResponseRecorder.Write(p)
}

// TestAnswersAreWrittenInWholePieces: all but the last, whatever they are put together of, and their length is said if it is
// known before the first.
func TestAnswersAreWrittenInWholePieces(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 50_000) // 800 000 bytes
	for _, c := range []struct {
		parts  []int // sizes, the last again and again
		size   int
		known  bool
		piece  int
		length bool
	}{
		{[]int{1}, 100, false, compress.ChunkBytes, true},
		{[]int{compress.ChunkBytes}, compress.ChunkBytes, false, compress.ChunkBytes, true},
		{[]int{7}, len(body), false, compress.ChunkBytes, false},
		{[]int{80_000}, len(body), false, compress.ChunkBytes, false},
		{[]int{len(body)}, len(body), false, compress.ChunkBytes, false},
		{[]int{100, 7_000}, len(body), true, compress.PieceBytes, true},
		{[]int{80_000}, len(body), true, compress.PieceBytes, true},
		{[]int{1, len(body)}, len(body), true, compress.PieceBytes, true},
		{[]int{compress.PieceBytes}, 3 * compress.PieceBytes, true, compress.PieceBytes, true},
	} {
		w := &pieces{ResponseRecorder: *httptest.NewRecorder()}
		out := compress.New(w, false)
		if c.known {
			out.Length(int64(c.size))
		}
		for i, rest := 0, body[:c.size]; len(rest) > 0; i++ {
			n := min(c.parts[min(i, len(c.parts)-1)], len(rest))
			out.Write(rest[:n])
			rest = rest[n:]
		}
		out.Close()
		out.Release()
		if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), body[:c.size]) {
			t.Errorf("%+v: got another answer, of %d bytes, status %d", c, w.Body.Len(), w.Code)
		}
		for i, n := range w.sizes {
			if n != c.piece && i < len(w.sizes)-1 {
				t.Errorf("%+v: piece %d of %v is not whole", c, i, w.sizes)
				break
			}
		}
		if got, want := w.Header().Get("Content-Length"), strconv.Itoa(c.size); (got == want) != c.length ||
			got != "" && got != want {
			t.Errorf("%+v: Content-Length: %q", c, got)
		}
	}
}
