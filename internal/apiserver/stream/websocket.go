package stream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	// pingEvery keeps what is between client and server from forgetting an idle
	// connection (upstream's server sends no pings; server.md 10).
	pingEvery = 30 * time.Second
	// goodbye is how long a client may take to answer the end of the stream.
	goodbye = time.Second
)

// socket sends each line as a text message (server.md 3.6).
type socket struct {
	conn *websocket.Conn
	gone chan struct{} // closed when listen has ended

	// ctx ends with the stream; a write that is under way then fails.
	ctx    context.Context //nolint:containedctx // the stream is a call
	cancel context.CancelFunc
	pings  *time.Timer

	// mu guards limit.
	mu    sync.Mutex
	limit *time.Timer
}

// WantsUpgrade says whether the request asks for a WebSocket.
func WantsUpgrade(r *http.Request) bool {
	return r.ProtoMajor == 1 && has(r.Header, "Connection", "upgrade") && has(r.Header, "Upgrade", "websocket")
}

func has(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for element := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(element), token) {
				return true
			}
		}
	}
	return false
}

// SameOrigin says whether a WebSocket may be opened from where the request says
// it comes from. A browser sends client certificates from any page, so a page of
// another host is refused; programs send no origin or the server's own, fabric8
// before 4.6 with the port -1 (ecosystem.md 0.7).
func SameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	_, host, found := strings.Cut(origin, "://")
	return found && strings.EqualFold(hostname(host), hostname(r.Host))
}

// hostname cuts the port off, also one that is no port.
func hostname(host string) string {
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		host = host[:at]
	}
	return host
}

// Upgrade answers with 101 and returns the sink that sends messages. The client's
// only offered subprotocol, or the first, is echoed. ctx is what the stream lives
// in, not the request's. left is called, from a goroutine that ends with the
// connection, when the client has gone. When the handshake is wrong it is answered
// with 4xx and an error returned.
func Upgrade(ctx context.Context, w http.ResponseWriter, r *http.Request, left func()) (Sink, error) {
	protocols := offered(r)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: protocols, InsecureSkipVerify: true, // SameOrigin has looked
	})
	if err != nil {
		return nil, err
	}
	s := &socket{conn: conn, gone: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.pings = time.AfterFunc(pingEvery, s.ping)
	go s.listen(left) // ends when the client leaves, or with End
	return s, nil
}

func offered(r *http.Request) []string {
	first, _, _ := strings.Cut(strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ","), ",")
	if first = strings.TrimSpace(first); first != "" {
		return []string{first}
	}
	return nil
}

// listen takes what the client sends, answers its pings, and looks for its end.
func (s *socket) listen(left func()) {
	defer close(s.gone)
	defer left()
	for total := int64(0); total < unexpectedBytes; {
		_, message, err := s.conn.Reader(s.ctx)
		if err != nil {
			return
		}
		n, err := io.Copy(io.Discard, message)
		if err != nil {
			return
		}
		total += n + 1
	}
}

// ping asks for a sign of life, and again later. Without one the client is gone.
func (s *socket) ping() {
	limited, cancel := context.WithTimeout(s.ctx, pingEvery)
	defer cancel()
	switch err := s.conn.Ping(limited); {
	case err == nil:
		s.pings.Reset(pingEvery)
	case s.ctx.Err() == nil:
		s.cancel() // what waits for the connection ends with ctx, and the connection with it
	}
}

// Put implements Sink: a line is a message.
func (s *socket) Put(head, body, tail []byte) error {
	w, err := s.conn.Writer(s.ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for _, part := range [...][]byte{head, body, tail} {
		if len(part) == 0 {
			continue
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Close()
}

// Flush implements Sink.
func (s *socket) Flush() error { return nil }

// Limit implements Sink.
func (s *socket) Limit(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit != nil {
		s.limit.Stop()
	}
	s.limit = time.AfterFunc(time.Until(t), s.cancel)
}

// Gone implements Sink.
func (s *socket) Gone() <-chan struct{} { return s.gone }

// End implements Sink.
func (s *socket) End(e Ending) {
	s.pings.Stop()
	code := websocket.StatusNormalClosure
	switch e {
	case Shutdown:
		code = websocket.StatusGoingAway
	case Broken:
		code = websocket.StatusInternalError
	case Done:
	}
	s.Limit(time.Now().Add(goodbye))
	_ = s.conn.Close(code, "") // the client may be gone
	s.cancel()
	s.mu.Lock()
	s.limit.Stop()
	s.mu.Unlock()
	<-s.gone
}
