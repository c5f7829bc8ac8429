package stream_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
)

// piece is the most that is sent at once.
const piece = 32 << 10

func TestHijackedAnswerIsChunked(t *testing.T) {
	s := serve(t, kind{})
	_, from, sink := s.open(get)
	if got, want := header(t, from), "HTTP/1.1 200 OK\nConnection: close\nTransfer-Encoding: chunked"; got != want {
		t.Fatalf("header\n%s\nwant\n%s", got, want)
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  []int // bytes of the chunks
	}{
		{"one byte", []string{"x"}, []int{1}},
		{"a batch in one chunk", []string{"one\n", "two\n", "three\n"}, []int{14}},
		{"a full piece", []string{strings.Repeat("x", piece)}, []int{piece}},
		{"one byte more", []string{strings.Repeat("x", piece+1)}, []int{piece, 1}},
		{"a batch of many", slicesOf("0123456789abcde\n", 5000), []int{piece, piece, 80000 - 2*piece}},
	} {
		t.Run(c.name, func(t *testing.T) {
			put(t, sink, c.lines...)
			var got strings.Builder
			for _, want := range c.want {
				text := chunk(t, from)
				if len(text) != want {
					t.Errorf("chunk of %d bytes, want %d", len(text), want)
				}
				got.WriteString(text)
			}
			if got.String() != strings.Join(c.lines, "") {
				t.Error("other bytes than were put")
			}
		})
	}
	if err := sink.Flush(); err != nil { // of nothing: the end of the body would be misread
		t.Fatalf("flush sink: %v", err)
	}
	sink.End(stream.Done)
	if rest, err := io.ReadAll(from); string(rest) != "0\r\n\r\n" || err != nil {
		t.Errorf("the end is %q, %v", rest, err)
	}
}

func slicesOf(line string, n int) []string {
	var lines []string
	for range n {
		lines = append(lines, line)
	}
	return lines
}

func TestLargeObjectIsSentInPieces(t *testing.T) {
	const size = 3 << 20
	s := serve(t, kind{})
	_, from, sink := s.open(get)
	header(t, from)
	object := strings.Repeat("0123456789abcdef", size/16)
	written := make(chan struct{})
	go func() { // ends when the client has read it
		defer close(written)
		if err := sink.Put([]byte(`{"object":`), []byte(object), []byte("}\n")); err != nil {
			t.Errorf("put: %v", err)
		}
		sink.End(stream.Done)
	}()
	var got bytes.Buffer
	for {
		text := chunk(t, from)
		if len(text) > piece {
			t.Fatalf("a chunk of %d bytes", len(text))
		}
		if text == "" {
			break
		}
		got.WriteString(text)
	}
	<-written
	over(t, from)
	if want := `{"object":` + object + "}\n"; got.String() != want {
		t.Errorf("%d bytes, want %d", got.Len(), len(want))
	}
}

// respond is Respond in a handler that stays until the sink has ended.
func respond(w http.ResponseWriter, r *http.Request, zip bool, left func()) (stream.Sink, error) {
	inner, err := stream.Respond(w, r, zip)
	if err != nil {
		return nil, err
	}
	return &staying{Sink: inner, left: left, ended: make(chan struct{})}, nil
}

func TestBytesSentDuringAWatchAreIgnoredUpToABound(t *testing.T) {
	pipelined := get + "GET /other HTTP/1.1\r\nHost: x\r\n\r\n"
	s := serve(t, kind{})
	conn, from, sink := s.open(pipelined)
	header(t, from)
	put(t, sink, "one\n")
	if got := chunk(t, from); got != "one\n" {
		t.Errorf("%q after a pipelined request", got)
	}
	noise := bytes.Repeat([]byte("noise"), 10<<10)
	if _, err := conn.Write(noise); err != nil { // 50 KiB: within the bound
		t.Fatalf("write conn: %v", err)
	}
	put(t, sink, "two\n")
	if got := chunk(t, from); got != "two\n" {
		t.Errorf("%q after noise", got)
	}
	if sink.hasLeft() {
		t.Error("the watch has ended within the bound")
	}
	if _, err := conn.Write(noise); err != nil { // 100 KiB
		t.Fatalf("write conn: %v", err)
	}
	<-sink.left
	<-sink.Gone()
	sink.End(stream.Done)
}

func TestDisconnectOfTheClientIsDetected(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn) error{
		"closed":      (*net.TCPConn).Close,
		"half closed": (*net.TCPConn).CloseWrite,
		"reset": func(c *net.TCPConn) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, from, sink := serve(t, kind{}).open(get)
			header(t, from)
			if err := leave(conn); err != nil {
				t.Fatalf("leave: %v", err)
			}
			<-sink.left
			<-sink.Gone()
			sink.End(stream.Done)
			if name == "half closed" { // as net/http does: the end of the requests is the end of the answer
				if got := chunk(t, from); got != "" {
					t.Errorf("%q", got)
				}
			}
		})
	}
}

func TestBrokenStreamIsCutOff(t *testing.T) {
	_, from, sink := serve(t, kind{}).open(get)
	header(t, from)
	put(t, sink, "one\n")
	if err := sink.Put([]byte("two"), nil, nil); err != nil {
		t.Fatalf("put sink: %v", err)
	}
	sink.End(stream.Broken)
	if rest, err := io.ReadAll(from); string(rest) != "4\r\none\n\r\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestOnlyHTTP11RequestsWithoutABodyAreHijacked(t *testing.T) {
	open := func(w http.ResponseWriter, r *http.Request, left func()) (stream.Sink, error) {
		if stream.CanHijack(w, r) {
			return stream.Hijack(w, false, left)
		}
		return respond(w, r, false, left)
	}
	for _, c := range []struct{ name, request, want string }{
		{"HTTP/1.1", get, "4\r\none\n\r\n0\r\n\r\n"},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "one\n"},
		{"HTTP/1.0 that would go on", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "one\n"},
		{
			"with a body", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
			"4\r\none\n\r\n0\r\n\r\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, from, sink := serve(t, kind{open: open}).open(c.request)
			head := header(t, from)
			if version := "HTTP/1.1 200 OK"; !strings.HasPrefix(head, "HTTP/1.0 200 OK") && !strings.HasPrefix(head, version) {
				t.Fatal(head)
			}
			_, stayed := sink.Sink.(*staying)
			if stayed == (c.name == "HTTP/1.1") {
				t.Errorf("the handler stays: %v", stayed)
			}
			put(t, sink, "one\n")
			sink.End(stream.Done)
			if rest, err := io.ReadAll(from); string(rest) != c.want || err != nil {
				t.Errorf("%q, %v; want %q", rest, err, c.want)
			}
		})
	}
}

func TestLimitEndsABlockedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		sink := onPipe(t, client, server, func(w http.ResponseWriter, left func()) (stream.Sink, error) {
			return stream.Hijack(w, false, left)
		})
		began := time.Now()
		sink.Limit(began.Add(10 * time.Second))
		if err := sink.Put(make([]byte, piece+1), nil, nil); err == nil {
			t.Error("put more than a piece, and nobody has taken it")
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("given up after %v", took)
		}
		sink.End(stream.Done)
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// onPipe opens a sink on a connection in memory, with no server around it.
func onPipe(t testing.TB, client, server net.Conn, open func(http.ResponseWriter, func()) (stream.Sink, error)) *gone {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	headers := make(chan struct{})
	go func() { // ends with the header
		defer close(headers)
		var b [1]byte
		for last := ""; !strings.HasSuffix(last, "\r\n\r\n"); last += string(b[:]) {
			if _, err := client.Read(b[:]); err != nil {
				t.Errorf("header: %v", err)
				return
			}
		}
	}()
	sink, err := open(&pipeWriter{conn: server, header: http.Header{}}, cancel)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	<-headers
	return &gone{Sink: sink, left: ctx.Done()}
}
