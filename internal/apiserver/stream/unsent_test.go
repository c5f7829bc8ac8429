//go:build linux

package stream_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

// The kernel would take 2.5 MiB on the loopback interface, and 4 MiB elsewhere.
func TestSocketBufferOfAStalledClientIsSmall(t *testing.T) {
	const most = 1 << 20 // what is unsent, and what the client's own kernel takes
	for name, k := range map[string]kind{
		"hijacked": {},
		"websocket": {open: func(w http.ResponseWriter, r *http.Request, left func()) (stream.Sink, error) {
			r.Header = handshake().Header
			return stream.Upgrade(w, r, stream.Text, left)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _, sink := serve(t, k).open(get)
			taken := 0
			for line := make([]byte, piece); ; taken += len(line) {
				sink.Limit(time.Now().Add(time.Second))
				if sink.Put(line, nil, nil) != nil || sink.Flush() != nil {
					break
				}
			}
			if taken > most {
				t.Errorf("%d bytes were taken, and nobody reads", taken)
			}
			if err := conn.Close(); err != nil {
				t.Errorf("close conn: %v", err)
			}
			sink.End(stream.Done)
		})
	}
}
