package campaign

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// link forwards TCP connections to one address. It can be cut, so that connections end and new ones are
// refused, and stalled, so that they stay open and nothing passes.
type link struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu sync.Mutex
	// mu guards what follows.
	isCut   bool
	without map[string]bool // the members of etcd whose connections are cut: see sender
	flows   chan struct{}   // closed while bytes pass
	open    map[net.Conn]string
}

// newLink starts a link, which close ends.
func newLink(target string) (*link, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for connections to %s: %w", target, err)
	}
	l := &link{
		target: target, listener: listener, without: map[string]bool{}, flows: make(chan struct{}), open: map[net.Conn]string{},
	}
	close(l.flows)
	l.wg.Go(func() { // ends when the listener is closed
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			l.wg.Go(func() { l.pass(client) }) // ends when either side is closed
		}
	})
	return l, nil
}

// address is where it listens, as host:port.
func (l *link) address() string { return l.listener.Addr().String() }

func (l *link) close() {
	_ = l.listener.Close() // once
	l.cut()
	l.wg.Wait()
}

// cut ends all connections, and those that are made until restore.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	l.flowLocked()
	for c := range l.open {
		_ = c.Close()
	}
}

// stall keeps connections open without passing anything on, until restore.
func (l *link) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.flows:
		l.flows = make(chan struct{})
	default:
	}
}

func (l *link) flowLocked() {
	select {
	case <-l.flows:
	default:
		close(l.flows)
	}
}

// cutFrom cuts the connections of one member of etcd.
func (l *link) cutFrom(member string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.without[member] = true
	for c, from := range l.open {
		if from == member {
			_ = c.Close()
		}
	}
}

// restore ends all that was done to it.
func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
	clear(l.without)
	l.flowLocked()
}

// keep records a connection, and reports whether it may be used.
func (l *link) keep(c net.Conn, from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut || l.without[from] {
		return false
	}
	l.open[c] = from
	return true
}

func (l *link) drop(c net.Conn) {
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
	_ = c.Close()
}

func (l *link) pass(client net.Conn) {
	defer l.drop(client)
	if !l.keep(client, "") {
		return
	}
	first := make([]byte, 16<<10)
	n, err := client.Read(first) // every protocol here begins with the client
	if err != nil {
		return
	}
	from := sender(first[:n])
	if !l.keep(client, from) {
		return
	}
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.target)
	if err != nil {
		return
	}
	defer l.drop(server)
	if !l.keep(server, from) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		l.copy(server, io.MultiReader(bytes.NewReader(first[:n]), client))
		_, _ = client.Close(), server.Close()
	})
	both.Go(func() {
		l.copy(client, server)
		_, _ = client.Close(), server.Close()
	})
	both.Wait()
}

// copy is io.Copy that waits while the link is stalled.
func (l *link) copy(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		flows := l.flows
		l.mu.Unlock()
		<-flows // restore and cut close it
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// sender returns the member of etcd that opened a connection, by the header with which members name
// themselves to each other (etcd server/etcdserver/api/rafthttp); "": it is no member.
func sender(request []byte) string {
	const header = "\r\nX-Server-From: "
	_, after, found := bytes.Cut(request, []byte(header))
	if !found {
		return ""
	}
	id, _, _ := bytes.Cut(after, []byte("\r\n"))
	return string(id)
}
