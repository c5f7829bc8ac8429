package pass_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/relay/pass"
)

// TestWebSocketsPass has callers with a token and with a certificate.
func TestWebSocketsPass(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols: []string{"v5.channel.k8s.io"}, CompressionMode: websocket.CompressionDisabled,
		})
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		who := fmt.Sprint(r.Header["Authorization"], r.Header["Impersonate-User"], r.Header["Sec-Websocket-Protocol"])
		if err := c.Write(r.Context(), websocket.MessageText, []byte(who)); err != nil {
			t.Errorf("write: %v", err)
		}
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil {
				if websocket.CloseStatus(err) != websocket.StatusGoingAway {
					t.Errorf("the end of the client arrives as %v", err)
				}
				return
			}
			if err := c.Write(r.Context(), kind, message); err != nil {
				t.Errorf("write: %v", err)
			}
		}
	})
	cfg.BearerToken = "the-relay"
	const token = "base64url.bearer.authorization.k8s.io.dG9rZW4"
	for want, certified := range map[string]func(*http.Request) (user.Info, error){
		"[Bearer x] [] [v5.channel.k8s.io," + token + "]": nobody,
		"[Bearer the-relay] [jane] [v5.channel.k8s.io]":   func(*http.Request) (user.Info, error) { return jane(), nil },
	} {
		_, front := inFront(t, pass.Config{Upstream: cfg, Certificate: certified})
		c, resp, err := websocket.Dial(t.Context(), front.URL, &websocket.DialOptions{ //nolint:bodyclose // a handshake has no body
			HTTPClient: front.Client(t, "HTTP/1.1"), Subprotocols: []string{"v5.channel.k8s.io", token},
			HTTPHeader: http.Header{"Authorization": {"Bearer x"}},
		})
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		if resp.Header.Get("Sec-WebSocket-Protocol") != "v5.channel.k8s.io" {
			t.Errorf("%v", resp.Header)
		}
		c.SetReadLimit(-1)
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		for _, message := range []string{"", "\x00stdin", strings.Repeat("large", 1<<12)} {
			if err := c.Write(t.Context(), websocket.MessageBinary, []byte(message)); err != nil {
				t.Fatalf("write: %v", err)
			}
			if _, got, err := c.Read(t.Context()); err != nil || string(got) != message {
				t.Errorf("%d bytes came back of %d, %v", len(got), len(message), err)
			}
		}
		_ = c.Close(websocket.StatusGoingAway, "")
	}
}

// spdy answers like kubectl exec's server: what the client sends comes back, and both can be first.
func spdy(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("command") == "none" {
			http.Error(w, "no such command", http.StatusBadRequest)
			return
		}
		w.Header().Set("Upgrade", "SPDY/3.1")
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("X-Stream-Protocol-Version", "v4.channel.k8s.io")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack make a response controller: %v", err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "\x80\x03hello")
		_, _ = io.Copy(conn, buffered)
	}
}

// upgrading is a request to switch protocols.
func upgrading(path string) string {
	return "POST " + path +
		" HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: " +
		"v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
}

// dialFront opens a connection to a relay and sends a request, as bytes.
func dialFront(t *testing.T, address, request string) (conn net.Conn, from *bufio.Reader, answer answered) {
	t.Helper()
	var err error
	conn, err = (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}).DialContext(t.Context(), "tcp", address) //nolint:gosec // a test
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err = io.WriteString(conn, request); err != nil {
		t.Fatalf("write: %v", err)
	}
	from = bufio.NewReader(conn)
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatalf("read response: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer = answered{code: resp.StatusCode, header: resp.Header}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("read to the end: %v", err)
		}
		answer.body = string(body)
	}
	return conn, from, answer
}

func TestOtherProtocolsPassBothWays(t *testing.T) {
	_, cfg := foreign(t, spdy(t))
	_, front := inFront(t, pass.Config{Upstream: cfg})
	conn, from, resp := dialFront(t, front.Listener.Addr().String(), upgrading("/api/v1/namespaces/a/pods/b/exec?command=sh"))
	if resp.code != http.StatusSwitchingProtocols || resp.header.Get("Upgrade") != "SPDY/3.1" ||
		resp.header.Get("X-Stream-Protocol-Version") != "v4.channel.k8s.io" {
		t.Fatalf("%d %v", resp.code, resp.header)
	}
	for _, sent := range []string{"", "\x00\x01\x02", strings.Repeat("0123456789", 10_000)} {
		want := sent
		if sent == "" {
			want = "\x80\x03hello"
		}
		go func() { _, _ = io.WriteString(conn, sent) }() // ends when it is read
		got := make([]byte, len(want))
		if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
			t.Fatalf("%d bytes are not the %d expected: %v", len(got), len(want), err)
		}
	}
}

func TestARefusedUpgradePassesAsItIs(t *testing.T) {
	_, cfg := foreign(t, spdy(t))
	_, front := inFront(t, pass.Config{Upstream: cfg})
	_, _, resp := dialFront(t, front.Listener.Addr().String(), upgrading("/exec?command=none"))
	if resp.body != "no such command\n" || resp.code != http.StatusBadRequest {
		t.Errorf("%d %q", resp.code, resp.body)
	}
}

// TestASwitchedConnectionEndsWithUpstream closes upstream's side.
func TestASwitchedConnectionEndsWithUpstream(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "SPDY/3.1")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack make a response controller: %v", err)
			return
		}
		_, _ = io.WriteString(conn, "bye")
		_ = conn.Close()
	})
	_, front := inFront(t, pass.Config{Upstream: cfg})
	_, from, _ := dialFront(t, front.Listener.Addr().String(), upgrading("/attach"))
	if got, _ := io.ReadAll(from); string(got) != "bye" {
		t.Errorf("%q", got)
	}
}
