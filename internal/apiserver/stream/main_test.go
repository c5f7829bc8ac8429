package stream_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kind is how a stand sends.
type kind struct {
	zip bool
	// open makes the sink; nil is Hijack.
	open func(w http.ResponseWriter, r *http.Request, left func()) (stream.Sink, error)
}

// stand is a server whose handler hands out its sink.
type stand struct {
	t       testing.TB
	address string
	sinks   chan stream.Sink
	errs    chan error
}

// serve runs a server on a real socket until the test ends.
func serve(t testing.TB, k kind) *stand {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := &stand{t: t, address: l.Addr().String(), sinks: make(chan stream.Sink, 1), errs: make(chan error, 1)}
	if k.open == nil {
		k.open = func(w http.ResponseWriter, _ *http.Request, left func()) (stream.Sink, error) {
			return stream.Hijack(w, k.zip, left)
		}
	}
	srv := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		sink, err := k.open(w, r, cancel)
		if err != nil {
			s.errs <- err
			return
		}
		s.sinks <- &gone{Sink: sink, left: ctx.Done()}
		if handler, is := sink.(*staying); is {
			<-handler.ended
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }() // ends with Close
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// gone is a sink with a channel that is closed when left is called.
type gone struct {
	stream.Sink

	left <-chan struct{}
}

func (g *gone) hasLeft() bool {
	select {
	case <-g.left:
		return true
	default:
		return false
	}
}

// open connects, sends the text, and returns the connection with what comes from
// it, and the sink at its other end.
func (s *stand) open(text string) (*net.TCPConn, *bufio.Reader, *gone) {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatalf("connect: %v", err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatalf("write: %v", err)
	}
	select {
	case sink := <-s.sinks:
		return conn.(*net.TCPConn), bufio.NewReader(conn), sink.(*gone)
	case err := <-s.errs:
		s.t.Fatalf("no sink: %v", err)
		return nil, nil, nil
	}
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// header reads the header of an answer as lines, without the date.
func header(t testing.TB, from *bufio.Reader) string {
	t.Helper()
	var lines []string
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatalf("header after %q: %v", lines, err)
		}
		line, ended := strings.CutSuffix(line, "\r\n")
		switch {
		case !ended:
			t.Fatalf("header line %q", line)
		case line == "":
			return strings.Join(lines, "\n")
		case !strings.HasPrefix(line, "Date: "):
			lines = append(lines, line)
		}
	}
}

// chunk reads one chunk, and is strict; it returns "" for the last one.
func chunk(t testing.TB, from *bufio.Reader) string {
	t.Helper()
	line, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("size of a chunk: %v", err)
	}
	size, err := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 16, 31)
	if err != nil || line != strconv.FormatUint(size, 16)+"\r\n" {
		t.Fatalf("size of a chunk %q: %v", line, err)
	}
	body := make([]byte, size+2)
	if _, err := io.ReadFull(from, body); err != nil || string(body[size:]) != "\r\n" {
		t.Fatalf("a chunk of %d bytes ends with %q: %v", size, body[size:], err)
	}
	return string(body[:size])
}

// over fails unless the connection ends here, without a reset.
func over(t testing.TB, from *bufio.Reader) {
	t.Helper()
	if b, err := from.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %q, %v", b, err)
	}
}

func put(t testing.TB, s stream.Sink, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := s.Put([]byte(line[:1]), []byte(line[1:]), nil); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
}
