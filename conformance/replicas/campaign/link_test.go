package campaign

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// echo is a server that returns each line; it ends with the test.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	done := make(chan struct{})
	go func() { // ends when the listener is closed, and all connections are
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// caller is a connection through a link.
type caller struct {
	net.Conn
	*bufio.Reader
}

func call(t *testing.T, l *link) caller {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.address())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return caller{conn, bufio.NewReader(conn)}
}

// ask sends something that ends a line, and waits for it for a time.
func (c caller) ask(text string, limit time.Duration) error {
	if _, err := fmt.Fprintf(c.Conn, "%s\n", text); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	for {
		line, err := c.ReadString('\n')
		if err != nil {
			return err
		}
		if line == "\r\n" || line == text+"\n" {
			return nil
		}
	}
}

const patience = 30 * time.Second

func TestLinkIsCutAndStalledUntilItIsRestored(t *testing.T) {
	l, err := newLink(echo(t))
	if err != nil {
		t.Fatalf("make a link: %v", err)
	}
	defer l.close()
	c := call(t, l)
	if err := c.ask("hello", patience); err != nil {
		t.Fatalf("ask: %v", err)
	}
	l.stall()
	if err := c.ask("nothing", 50*time.Millisecond); !isTimeout(err) {
		t.Errorf("ask a link that is stalled: %v, want no answer", err)
	}
	l.restore()
	if err := c.ask("again", patience); err != nil {
		t.Errorf("ask after a stall: %v", err)
	}
	l.cut()
	if err := c.ask("gone", patience); err == nil || isTimeout(err) {
		t.Errorf("ask a link that is cut: %v, want the end of the connection", err)
	}
	if err := call(t, l).ask("refused", patience); err == nil || isTimeout(err) {
		t.Errorf("ask over a new connection of a link that is cut: %v, want its end", err)
	}
	l.restore()
	if err := call(t, l).ask("back", patience); err != nil {
		t.Errorf("ask after a cut: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// TestLinkIsCutForOneMemberOnly: members of etcd share the address of another one, and name themselves.
func TestLinkIsCutForOneMemberOnly(t *testing.T) {
	l, err := newLink(echo(t))
	if err != nil {
		t.Fatalf("make a link: %v", err)
	}
	defer l.close()
	const request = "POST /raft HTTP/1.1\r\nX-Server-From: %s\r\n\r"
	one, other := call(t, l), call(t, l)
	for id, c := range map[string]caller{"a1": one, "b2": other} {
		if err := c.ask(fmt.Sprintf(request, id), patience); err != nil {
			t.Fatalf("ask: %v", err)
		}
	}
	l.cutFrom("a1")
	if err := one.ask("gone", patience); err == nil || isTimeout(err) {
		t.Errorf("ask over the connection of the member that is cut: %v, want its end", err)
	}
	if err := call(t, l).ask(fmt.Sprintf(request, "a1"), patience); err == nil || isTimeout(err) {
		t.Errorf("ask over a new connection of that member: %v, want its end", err)
	}
	if err := other.ask("hello", patience); err != nil {
		t.Errorf("ask over the connection of another member: %v", err)
	}
}
