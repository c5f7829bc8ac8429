package stream_test

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

// Whatever a client does after the end of the first gzip member of a body (OkHttp 5
// fails, tower-http too, others end), it must have all of it there, and each flush as
// soon as it was sent.
func TestCompressedStreamIsOneGzipMemberReadableAfterEachFlush(t *testing.T) {
	big := strings.Repeat("all work and no play makes jack a dull boy\n", 4000) // more than a piece
	for _, c := range []struct {
		name string
		open func(w http.ResponseWriter, r *http.Request, left func()) (stream.Sink, error)
	}{
		{"hijacked", nil},
		{"of a handler", func(w http.ResponseWriter, r *http.Request, left func()) (stream.Sink, error) {
			return respond(w, r, true, left)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, from, sink := serve(t, kind{zip: true, open: c.open}).open(get)
			header(t, from)
			body := bufio.NewReader(httputil.NewChunkedReader(from))
			var z *gzip.Reader
			for _, line := range []string{"x", "one\n", big, "last\n"} {
				put(t, sink, line)
				if z == nil {
					z = oneMember(t, body)
				}
				got := make([]byte, len(line))
				if _, err := io.ReadFull(z, got); err != nil || string(got) != line {
					t.Fatalf("%.20q came as %.20q, %v", line, got, err)
				}
			}
			sink.End(stream.Done)
			ended(t, z, body)
		})
	}
	t.Run("without a line", func(t *testing.T) {
		_, from, sink := serve(t, kind{zip: true}).open(get)
		header(t, from)
		sink.End(stream.Done)
		body := bufio.NewReader(httputil.NewChunkedReader(from))
		ended(t, oneMember(t, body), body)
	})
}

// oneMember reads a body up to the end of its first gzip member.
func oneMember(t *testing.T, body *bufio.Reader) *gzip.Reader {
	t.Helper()
	z, err := gzip.NewReader(body)
	if err != nil {
		t.Fatalf("make a reader: %v", err)
	}
	z.Multistream(false)
	return z
}

// ended fails unless a member ends, with a right checksum, and the body with it.
func ended(t *testing.T, z *gzip.Reader, body *bufio.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(z); len(rest) > 0 || err != nil {
		t.Errorf("the member ends with %q, %v", rest, err)
	}
	if rest, err := io.ReadAll(body); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes after the member, %v", len(rest), err)
	}
}

// A compressor needs 0.8 MiB: an idle stream must not have one.
func TestIdleCompressedStreamHoldsNoCompressor(t *testing.T) {
	const streams, most = 100, 4 << 10 // bytes for each more than a plain one
	held := func(zip bool) int64 {
		var sinks []stream.Sink
		before := heap()
		for range streams {
			sink, err := stream.Respond(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody), zip)
			if err != nil {
				t.Fatalf("respond: %v", err)
			}
			put(t, sink, "one\n")
			sinks = append(sinks, sink)
		}
		after := heap()
		runtime.KeepAlive(sinks)
		return after - before
	}
	plain, zipped := held(false), held(true)
	t.Logf("%d streams: %d bytes plain, %d bytes compressed", streams, plain, zipped)
	if zipped-plain > streams*most {
		t.Errorf("%d compressed streams hold %d bytes more than plain ones", streams, zipped-plain)
	}
}

// heap is how much is in use after all was collected, that of pools too.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
