package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// fanout writes a chunk to many connections, one after the other: one TLS record and one system call each, and nothing else.
type fanout struct {
	chunk []byte

	mu    sync.Mutex
	conns []net.Conn
}

func newFanout(body []byte) *fanout {
	return &fanout{chunk: fmt.Appendf(nil, "%x\r\n%s\r\n", len(body), body)}
}

// add takes the connection of an answer over HTTP/1.1, and begins the answer.
func (f *fanout) add(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusHTTPVersionNotSupported)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	const begin = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(conn, begin); err != nil {
		_ = conn.Close() // the client left
		return
	}
	f.conns = append(f.conns, conn)
}

// run writes until ctx ends.
func (f *fanout) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		open := f.conns[:0]
		for _, conn := range f.conns {
			if _, err := conn.Write(f.chunk); err != nil {
				_ = conn.Close() // the client left
				continue
			}
			open = append(open, conn)
		}
		f.conns = open
		f.mu.Unlock()
	}
}
