package limit_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
)

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	from  []string // addresses of the clients, in turn
	n     int
}

func (p *pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	from := p.from[p.n%len(p.from)]
	p.n++
	return &addressed{conn, from}, nil
}
func (*pipes) Close() error   { return nil }
func (*pipes) Addr() net.Addr { return address("server") }

type addressed struct {
	net.Conn

	from string
}

func (a *addressed) RemoteAddr() net.Addr { return address(a.from + ":1") }

type address string

func (address) Network() string  { return "pipe" }
func (a address) String() string { return string(a) }

// bounded is a listener under test.
type bounded struct {
	t        *testing.T
	pipes    *pipes
	listener *limit.Listener
	refusals *limit.Refusals
}

func bound(t *testing.T, b limit.Bounds, from ...string) *bounded {
	t.Helper()
	r := limit.NewRefusals()
	p := &pipes{conns: make(chan net.Conn, 100), from: from}
	return &bounded{t, p, limit.NewListener(p, b, r), r}
}

// connect opens a connection and returns both of its ends.
func (b *bounded) connect() (client net.Conn, server *limit.Conn) {
	b.t.Helper()
	client, inner := net.Pipe()
	b.t.Cleanup(func() { _ = client.Close() })
	b.pipes.conns <- inner
	conn, err := b.listener.Accept()
	if err != nil {
		b.t.Fatalf("accept listener: %v", err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return client, limit.Of(limit.NewContext(b.t.Context(), conn))
}

// closed reports whether the other side has closed a connection.
func closed(c net.Conn) bool {
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return true
	}
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)
}

// count is the value of gapless_refused_total.
func (b *bounded) count(reason limit.Reason) float64 {
	b.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.refusals)
	families, err := registry.Gather()
	if err != nil {
		b.t.Fatalf("gather the metrics: %v", err)
	}
	for _, m := range families[0].Metric {
		if m.Label[0].GetValue() == string(reason) {
			return m.Counter.GetValue()
		}
	}
	b.t.Fatalf("%s is not counted", reason)
	return 0
}

func TestOldestAnonymousConnectionIsClosedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		bounds limit.Bounds
		from   []string
		reason limit.Reason
	}{
		"too many": {
			limit.Bounds{Connections: 3, ConnectionsOfAddress: 9, Anonymous: 9}, []string{"a", "b", "c", "d"}, limit.Connections,
		},
		"too many from one address": {
			limit.Bounds{Connections: 9, ConnectionsOfAddress: 3, Anonymous: 9}, []string{"a"}, limit.AddressConnections,
		},
		"too many anonymous": {
			limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 2},
			[]string{"a", "b", "c", "d"},
			limit.AnonymousConnections,
		},
		"too many anonymous of an address": {
			limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 4}, []string{"a"}, limit.AnonymousConnections,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bound(t, c.bounds, c.from...)
			known, server := b.connect()
			server.Identified()
			oldest, _ := b.connect()
			other, _ := b.connect()
			newest, _ := b.connect()
			if !closed(oldest) || closed(known) || closed(other) || closed(newest) {
				t.Errorf("closed: oldest %t, known %t, other %t, newest %t",
					closed(oldest), closed(known), closed(other), closed(newest))
			}
			if n := b.count(c.reason); n != 1 {
				t.Errorf("%v of %s are counted, want 1", n, c.reason)
			}
		})
	}
}

// TestTheOnlyConnectionOfAnAddressGivesWayToTheNext: the address is counted on.
func TestTheOnlyConnectionOfAnAddressGivesWayToTheNext(t *testing.T) {
	for name, bounds := range map[string]limit.Bounds{
		"one of an address":           {Connections: 9, ConnectionsOfAddress: 1, Anonymous: 9},
		"one anonymous of an address": {Connections: 9, ConnectionsOfAddress: 9, Anonymous: 2},
	} {
		b := bound(t, bounds, "a")
		var clients []net.Conn
		for range 3 {
			client, _ := b.connect()
			clients = append(clients, client)
		}
		if !closed(clients[0]) || !closed(clients[1]) || closed(clients[2]) {
			t.Errorf("%s: closed: %t %t %t", name, closed(clients[0]), closed(clients[1]), closed(clients[2]))
		}
	}
}

func TestNewConnectionIsClosedWhenAllOthersShowedCertificates(t *testing.T) {
	b := bound(t, limit.Bounds{Connections: 2, ConnectionsOfAddress: 2, Anonymous: 2}, "a")
	first, one := b.connect()
	one.Identified()
	second, two := b.connect()
	two.Identified()
	refused, inner := net.Pipe()
	b.pipes.conns <- inner
	close(b.pipes.conns)
	if _, err := b.listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want the end of the listener", err)
	}
	if !closed(refused) || closed(first) || closed(second) {
		t.Errorf("closed: third %t, first %t, second %t", closed(refused), closed(first), closed(second))
	}
}

// received reads from a connection and returns when how much had come.
func received(t *testing.T, server net.Conn, n int64) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := io.CopyN(io.Discard, server, n); err != nil {
		t.Fatalf("copy n: %v", err)
	}
	return time.Since(began)
}

func TestAnonymousConnectionIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bound(t, limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 9, FaultsPerMinute: 9}, "a")
		client, server := b.connect()
		go func() { _, _ = io.WriteString(client, strings.Repeat("x", 1<<20)) }() // ends with the connection
		if took := received(t, server, 24<<10); took != 0 {
			t.Errorf("the first 24 KiB took %v", took)
		}
		if took := received(t, server, 36<<10); took < 7*time.Second || took > 10*time.Second {
			t.Errorf("36 KiB more took %v, want about 9s: 4 KiB/s", took)
		}
		if n := b.count(limit.Throttled); n != 1 {
			t.Errorf("%v were counted, want 1", n)
		}
		// It waits now. A certificate ends that at once, and so do bodies that are read.
		server.Identified()
		if took := received(t, server, 120<<10); took != 0 {
			t.Errorf("120 KiB with a certificate took %v", took)
		}
	})
}

func TestBodiesDoNotThrottleAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bound(t, limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 9, FaultsPerMinute: 9}, "a")
		client, server := b.connect()
		server.Identified()
		go func() { _, _ = io.WriteString(client, strings.Repeat("x", 64<<20)) }() // ends with the connection
		began := time.Now()
		body := server.Request(io.NopCloser(server))
		if _, err := io.CopyN(io.Discard, body, 60<<20); err != nil {
			t.Fatalf("copy n: %v", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("60 MiB of bodies took %v", took)
		}
		if took := received(t, server, 2<<20); took < 15*time.Second {
			t.Errorf("2 MiB that are no body took only %v", took)
		}
	})
}

// TestABodyWhoseCallerIsBeingCheckedIsNotThrottled: the answer needs the body. Nothing else of such a
// connection is better than before.
func TestABodyWhoseCallerIsBeingCheckedIsNotThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bound(t, limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 2, FaultsPerMinute: 9}, "a", "b")
		client, server := b.connect()
		go func() { _, _ = io.WriteString(client, strings.Repeat("x", 64<<20)) }() // ends with the connection
		received(t, server, 24<<10)
		began := time.Now()
		body, end := server.Try(io.NopCloser(server))
		if _, err := io.CopyN(io.Discard, body, 3<<20); err != nil {
			t.Fatalf("copy n: %v", err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the body took %v", took)
		}
		end()
		if took := received(t, server, 64<<10); took < 5*time.Second {
			t.Errorf("64 KiB after the answer took only %v", took)
		}
		_, end = server.Try(io.NopCloser(server))
		defer end()
		b.connect()
		b.connect()
		if n := b.count(limit.AnonymousConnections); n != 1 || !closed(client) {
			t.Errorf("%v connections were closed, want the one whose caller is not known yet", n)
		}
	})
}

func TestDeadlineEndsAThrottledRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bound(t, limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 9, FaultsPerMinute: 9}, "a")
		client, server := b.connect()
		go func() { _, _ = io.WriteString(client, strings.Repeat("x", 1<<20)) }() // ends with the connection
		received(t, server, 24<<10)
		if _, err := io.ReadFull(server, make([]byte, 16<<10)); err != nil {
			t.Fatalf("read: %v", err)
		}
		time.AfterFunc(time.Millisecond, func() { _ = server.SetReadDeadline(time.Now().Add(-time.Second)) })
		began := time.Now()
		if _, err := server.Read(make([]byte, 1)); err == nil || time.Since(began) > 10*time.Millisecond {
			t.Errorf("%v after %v, want a timeout at once", err, time.Since(began))
		}
	})
}

func TestConnectionWithTooManyFaultsIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bound(t, limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 9, FaultsPerMinute: 60}, "a")
		_, server := b.connect()
		for range 120 { // one a second
			server.Fault(limit.Resets)
			<-time.After(time.Second)
		}
		if n := b.count(limit.Resets); n != 0 {
			t.Fatalf("%v were given up for one fault a second", n)
		}
		for range 70 {
			server.Fault(limit.Resets)
		}
		began := time.Now()
		_, err := server.Read(make([]byte, 1))
		if took := time.Since(began); err == nil || took != time.Second || b.count(limit.Resets) != 1 {
			t.Errorf("%v after %v, %v counted; want the end after 1s, 1", err, took, b.count(limit.Resets))
		}
	})
}
