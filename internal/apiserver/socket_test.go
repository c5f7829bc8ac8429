package apiserver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// fabric8 is the handshake of fabric8 4.2.2 (OkHttp 3.12), whose origin has the port
// of a URL that names none; the key is that of RFC 6455 1.3.
const fabric8 = "Origin: https://127.0.0.1:-1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nAccept-Encoding: " +
	"gzip\r\nUser-Agent: okhttp/3.12.0\r\n"

// raw opens a connection of TLS and sends a request, with a line for the host.
func (d *testServer) raw(request, headers string) (*tls.Conn, *bufio.Reader) {
	d.t.Helper()
	cfg := d.h1.Transport.(*http.Transport).TLSClientConfig.Clone()
	host := strings.TrimPrefix(d.url, "https://")
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(d.t.Context(), "tcp", host)
	if err != nil {
		d.t.Fatalf("connect: %v", err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request+"\r\nHost: "+host+"\r\n"+headers+"\r\n"); err != nil {
		d.t.Fatalf("write: %v", err)
	}
	return conn.(*tls.Conn), bufio.NewReader(conn)
}

// answerOf reads the answer to a handshake.
func answerOf(t testing.TB, from *bufio.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(from, nil) //nolint:bodyclose // the connection is closed by raw
	if err != nil {
		t.Fatalf("answer: %v", err)
	}
	return answer{Response: resp}
}

// message reads one frame of a server, which is all of a message.
func message(t testing.TB, from *bufio.Reader) (first byte, payload string) {
	t.Helper()
	var h [8]byte
	if _, err := io.ReadFull(from, h[:2]); err != nil {
		t.Fatalf("frame: %v", err)
	}
	first, size := h[0], uint64(h[1])
	if more := map[uint64]int{126: 2, 127: 8}[size]; more > 0 {
		h = [8]byte{}
		if _, err := io.ReadFull(from, h[8-more:]); err != nil {
			t.Fatalf("length of a frame: %v", err)
		}
		size = binary.BigEndian.Uint64(h[:])
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(from, body); err != nil {
		t.Fatalf("frame of %d bytes: %v", size, err)
	}
	return first, string(body)
}

const (
	textFrame  = 0x81
	closeFrame = 0x88
	pingFrame  = 0x89
	pongFrame  = 0x8A
)

// say sends one frame as a client, of at most 125 bytes.
func say(t testing.TB, conn net.Conn, first byte, payload string) {
	t.Helper()
	frame := append([]byte{first, 0x80 | byte(len(payload)), 1, 2, 3, 4}, payload...)
	for i := range payload {
		frame[6+i] ^= frame[2+i%4]
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatalf("write conn: %v", err)
	}
}

func TestFabric8HandshakeOpensAWatch(t *testing.T) {
	d := openServer(t, nil)
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	conn, from := d.raw("GET "+configMaps+"?resourceVersion="+rv+"&watch=true HTTP/1.1", fabric8)
	resp := answerOf(t, from)
	h := resp.Header.Clone()
	for _, ours := range []string{"Audit-Id", "Cache-Control", "Date"} {
		h.Del(ours)
	}
	want := http.Header{
		"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Accept": {"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
	}
	if diff := cmp.Diff(want, h); diff != "" || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%s %s", resp.Status, diff)
	}
	d.create("a", "")
	one := strings.TrimSpace(d.do("GET", configMaps+"/a", "").body)
	if first, got := message(t, from); first != textFrame || got != `{"type":"ADDED","object":`+one+"}\n" {
		t.Errorf("%x %q", first, got)
	}
	say(t, conn, pingFrame, "okhttp has no payload")
	if first, got := message(t, from); first != pongFrame || got != "okhttp has no payload" {
		t.Errorf("%x %q", first, got)
	}
	say(t, conn, textFrame, "a watch takes no messages")
	large := strings.Repeat("x", 200<<10)
	if a := d.do("POST",
		configMaps,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"},"data":{"a":"`+large+
			`"}}`); a.StatusCode != http.StatusCreated {
		t.Fatal(a.body)
	}
	one = strings.TrimSpace(d.do("GET", configMaps+"/b", "").body)
	if first, got := message(t, from); first != textFrame || got != `{"type":"ADDED","object":`+one+"}\n" {
		t.Errorf("%x, %d bytes", first, len(got))
	}
	say(t, conn, closeFrame, "\x03\xe8")
	if first, got := message(t, from); first != closeFrame || got != "\x03\xe8" {
		t.Errorf("%x %q", first, got)
	}
	if rest, err := io.ReadAll(from); len(rest) > 0 || err != nil {
		t.Errorf("after the Close: %q, %v", rest, err)
	}
}

func TestOfferedSubprotocolIsEchoedUnchanged(t *testing.T) {
	d := openServer(t, nil)
	for offered, want := range map[string]string{
		"":                            "",
		"v4.channel.k8s.io":           "v4.channel.k8s.io",
		"Base64.Channel.K8s.io":       "Base64.Channel.K8s.io",
		"one, two,three":              "one",
		"base64url.bearer.aGVsbG8, v": "base64url.bearer.aGVsbG8",
		// A token is not sent back.
		"base64url.bearer.authorization.k8s.io.aGVsbG8, v": "v",
		"base64url.bearer.authorization.k8s.io.aGVsbG8":    "",
	} {
		headers := fabric8
		if offered != "" {
			headers += "Sec-WebSocket-Protocol: " + offered + "\r\n"
		}
		_, from := d.raw("GET "+configMaps+"?watch=true&timeoutSeconds=-1 HTTP/1.1", headers)
		resp := answerOf(t, from)
		if got := strings.Join(resp.Header.Values("Sec-Websocket-Protocol"),
			"|"); resp.StatusCode != http.StatusSwitchingProtocols || got != want {
			t.Errorf("%q: %s with %q", offered, resp.Status, got)
		}
	}
}

func TestInvalidHandshakesAreRefused(t *testing.T) {
	d := openServer(t, nil)
	host := strings.TrimPrefix(d.url, "https://")
	without := func(name string) string {
		var kept strings.Builder
		for line := range strings.Lines(fabric8) {
			if !strings.HasPrefix(line, name+":") {
				kept.WriteString(line)
			}
		}
		return kept.String()
	}
	for _, c := range []struct {
		name, path, version, headers, want string
	}{
		{"no origin", "?watch=1", "1.1", without("Origin"), "101"}, // upstream: 403, which shuts programs out
		{"the server's own origin", "?watch=1", "1.1", without("Origin") + "Origin: https://" + host + "\r\n", "101"},
		{"another port", "?watch=1", "1.1", without("Origin") + "Origin: http://127.0.0.1:3000\r\n", "101"},
		{"another host", "?watch=1", "1.1", without("Origin") + "Origin: https://evil.example\r\n", "403 Forbidden"},
		{
			"a host that begins like ours", "?watch=1", "1.1", without("Origin") + "Origin: https://127.0.0.1.evil.example\r\n",
			"403 Forbidden",
		},
		{"no host", "?watch=1", "1.1", without("Origin") + "Origin: null\r\n", "403 Forbidden"},
		{"version 8", "?watch=1", "1.1", without("Sec-WebSocket-Version") + "Sec-WebSocket-Version: 8\r\n", "400 offers 13"},
		{"no version", "?watch=1", "1.1", without("Sec-WebSocket-Version"), "400 offers 13"},
		{"no key", "?watch=1", "1.1", without("Sec-WebSocket-Key"), "400"},
		{"a short key", "?watch=1", "1.1", without("Sec-WebSocket-Key") + "Sec-WebSocket-Key: aGVsbG8=\r\n", "400"},
		{"two keys", "?watch=1", "1.1", fabric8 + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "400"},
		{"HTTP/1.0", "?watch=1", "1.0", fabric8, "426"},
		{"a malformed query", "?watch=1&resourceVersion=x", "1.1", fabric8, "400 BadRequest"},
		{"a list", "?limit=1", "1.1", fabric8, "200 ConfigMapList"},
		{"a get, as a watch of one object was", "/a?watch=1", "1.1", fabric8, "200 ConfigMap"},
		{
			"an upgrade to something else", "?watch=1&timeoutSeconds=-1", "1.1",
			strings.Replace(fabric8, "websocket", "SPDY/3.1", 1), "200 ",
		},
		{
			"no upgrade", "?watch=1&timeoutSeconds=-1", "1.1",
			strings.Replace(fabric8, "Connection: Upgrade", "Connection: keep-alive", 1), "200 ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "a list" {
				d.create("a", "")
			}
			_, from := d.raw("GET "+configMaps+c.path+" HTTP/"+c.version, c.headers)
			resp := answerOf(t, from)
			got := fmt.Sprint(resp.StatusCode)
			switch {
			case resp.Header.Get("Content-Type") == "application/json":
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatalf("read to the end: %v", err)
				}
				var what any = ""
				if len(body) > 0 {
					what = at(tree(t, string(body)), "kind")
				}
				if what == "Status" {
					what = at(tree(t, string(body)), "reason")
				}
				got += fmt.Sprintf(" %v", what)
			case resp.Header.Get("Sec-Websocket-Version") != "":
				got += " offers " + resp.Header.Get("Sec-Websocket-Version")
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// dial opens a watch by the client of another house.
func (d *testServer) dial(query string, headers ...string) *websocket.Conn {
	d.t.Helper()
	opts := &websocket.DialOptions{HTTPClient: d.h1, HTTPHeader: http.Header{}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		opts.HTTPHeader.Add(name, value)
	}
	conn, _, err := websocket.Dial(d.t.Context(), d.url+configMaps+"?watch=1"+query, opts) //nolint:bodyclose // Dial does
	if err != nil {
		d.t.Fatalf("connect: %v", err)
	}
	conn.SetReadLimit(8 << 20)
	d.t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// hear returns the next frame as "ADDED a", "ERROR 410", "INITIAL-END 7", "BOOKMARK 7",
// or how the watch has ended.
func hear(t testing.TB, conn *websocket.Conn) string {
	t.Helper()
	kind, line, err := conn.Read(t.Context())
	if err != nil {
		return fmt.Sprintf("close %d", websocket.CloseStatus(err))
	}
	if kind != websocket.MessageText || !bytes.HasSuffix(line, []byte("}\n")) || bytes.Count(line, []byte("\n")) != 1 {
		t.Errorf("a message of kind %v: %q", kind, line)
	}
	e := tree(t, string(line))
	meta, _ := at(e, "object", "metadata").(map[string]any)
	switch {
	case e["type"] == "ERROR":
		return fmt.Sprintf("ERROR %v", at(e, "object", "code"))
	case e["type"] != "BOOKMARK":
		return fmt.Sprintf("%v %v", e["type"], meta["name"])
	case meta["annotations"] != nil:
		return fmt.Sprintf("INITIAL-END %v", meta["resourceVersion"])
	}
	return fmt.Sprintf("BOOKMARK %v", meta["resourceVersion"])
}

func heard(t testing.TB, conn *websocket.Conn, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := hear(t, conn); got != w {
			t.Fatalf("%s, want %s", got, w)
		}
	}
}

func TestWebSocketWatchEndsWithTheCloseCodeOfItsReason(t *testing.T) {
	d := openServer(t, nil)
	old := rvOf(t, d.do("GET", configMaps, "").body)
	d.create("a", "")
	d.do("DELETE", configMaps+"/a", "")
	d.create("b", "")
	now := rvOf(t, d.do("GET", configMaps, "").body)
	rv, err := kube.ParseResourceVersion(now)
	if err != nil {
		t.Fatalf("parse resource version: %v", err)
	}
	heard(t, d.dial("&allowWatchBookmarks=1&timeoutSeconds=1"), "ADDED b", "INITIAL-END "+now, "close 1000")
	heard(t, d.dial("&timeoutSeconds=-1&resourceVersion="+now), "close 1000")
	if _, err := d.reg.Compact(t.Context(), store.Compaction{UpTo: int64(rv)}); err != nil {
		t.Fatalf("compact reg: %v", err)
	}
	heard(t, d.dial("&resourceVersion="+old), "ERROR 410", "close 1000")
	asked, plain := d.dial("&allowWatchBookmarks=1&resourceVersion="+now), d.dial("&resourceVersion="+now)
	d.create("c", "")
	heard(t, asked, "ADDED c")
	heard(t, plain, "ADDED c")
	if a := d.do("POST",
		"/api/v1/namespaces/default/secrets",
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}`); a.StatusCode != http.StatusCreated {
		t.Fatal(a.body)
	}
	now = rvOf(t, d.do("GET", configMaps, "").body)
	d.api.Drain()
	heard(t, asked, "BOOKMARK "+now, "close 1001")
	heard(t, plain, "close 1001")
}

func TestWebSocketWatchHasTheNegotiatedForm(t *testing.T) {
	d := openServer(t, nil)
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	conn := d.dial("&resourceVersion="+rv, acceptTable)
	d.create("a", "")
	d.create("b", "")
	for i, name := range []string{"a", "b"} {
		_, line, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("read conn: %v", err)
		}
		e := tree(t, string(line))
		rows, _ := at(e, "object", "rows").([]any)
		if at(e, "object", "kind") != "Table" || len(rows) != 1 || at(rows[0], "object", "metadata", "name") != name {
			t.Fatalf("%s", line)
		}
		if columns := at(e, "object", "columnDefinitions"); (columns != nil) != (i == 0) {
			t.Errorf("columns of event %d: %v", i, columns)
		}
	}
}

func TestWebSocketWatchEndsWhenItsClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(*tls.Conn) error{
		"without a close frame":      (*tls.Conn).Close,
		"without TLS's close_notify": func(c *tls.Conn) error { return c.NetConn().Close() },
		"with a half-closed connection": func(c *tls.Conn) error {
			return errors.Join(c.CloseWrite(), c.NetConn().(*net.TCPConn).CloseWrite())
		},
		"in a frame": func(c *tls.Conn) error {
			_, err := c.Write([]byte{textFrame, 0xFE, 1})
			return errors.Join(err, c.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(7)
			d := openServer(t, func(cfg *apiserver.Config) {
				cfg.Reader = &reader{
					Reader: cfg.Reader, watch: func(context.Context, wire.ListOptions) (wire.Watch, error) { return s, nil },
				}
			})
			conn, from := d.raw("GET "+configMaps+"?watch=1&resourceVersion=7 HTTP/1.1", fabric8)
			if resp := answerOf(t, from); resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(resp.Status)
			}
			s.events <- []wire.WatchEvent{added(t, "a", 8, 10)}
			if first, _ := message(t, from); first != textFrame {
				t.Fatalf("%x", first)
			}
			if err := leave(conn); err != nil {
				t.Fatalf("leave: %v", err)
			}
			<-s.closed
		})
	}
}

// A proxy forgets a connection on which nothing goes, a server a client that is
// no more.
func TestIdleWebSocketWatchIsPingedAndADeadOneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(7)
		c := wind(t, s)
		conn, from := c.send(
			"GET " + configMaps + "?watch=1&resourceVersion=7&timeoutSeconds=600 HTTP/1.1\r\nHost: 127.0.0.1\r\n" + fabric8 +
				"\r\n")
		if resp := answerOf(t, from); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(resp.Status)
		}
		for i := range 3 {
			if first, _ := message(t, from); first != pingFrame || time.Since(c.began) != time.Duration(i+1)*30*time.Second {
				t.Errorf("%x after %v", first, time.Since(c.began))
			}
			if i < 2 {
				say(t, conn, pongFrame, "")
			}
		}
		<-s.closed
		if took := time.Since(c.began); took != 2*time.Minute {
			t.Errorf("a client that was silent from 60 s on was dropped after %v", took)
		}
	})
}
