package limit_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/auth"
)

// echoes is a server of TLS behind a Listener, which sends back what it gets.
type echoes struct {
	t       *testing.T
	address string
	admin   tls.Certificate
	client  *tls.Config
}

func serveEchoes(t *testing.T, b limit.Bounds) *echoes {
	t.Helper()
	creds, err := auth.Open(t.TempDir(), auth.Options{})
	if err != nil {
		t.Fatalf("open the credentials: %v", err)
	}
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	listener := tls.NewListener(limit.NewListener(inner, b, limit.NewRefusals()), limit.TLS(creds.ServerTLS))
	ended := make(chan struct{})
	go func() { // ends with the listener
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer func() { _ = conn.Close() }() // its client may have closed it
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Errorf("close listener: %v", err)
		}
		<-ended
	})
	cert, key := creds.Admin()
	admin, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatalf("read the key pair: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(creds.CA())
	return &echoes{
		t, inner.Addr().String(), admin, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12},
	}
}

func (e *echoes) dial(cfg *tls.Config) *tls.Conn {
	e.t.Helper()
	d := tls.Dialer{Config: cfg}
	conn, err := d.DialContext(e.t.Context(), "tcp", e.address)
	if err != nil {
		e.t.Fatalf("connect: %v", err)
	}
	e.t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return conn.(*tls.Conn)
}

// works reports whether a connection echoes.
func works(c *tls.Conn) bool {
	if _, err := io.WriteString(c, "x"); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// Of two anonymous connections the older goes, and those that showed a certificate
// stay, also by a session that was resumed.
func TestHandshakeWithACertificateIdentifiesTheConnection(t *testing.T) {
	e := serveEchoes(t, limit.Bounds{Connections: 9, ConnectionsOfAddress: 9, Anonymous: 2, FaultsPerMinute: 9})
	known := e.client.Clone()
	known.Certificates, known.ClientSessionCache = []tls.Certificate{e.admin}, tls.NewLRUClientSessionCache(1)
	first := e.dial(known)
	if !works(first) { // and so it has the session's ticket
		t.Fatal("the first connection does not work")
	}
	resumed := e.dial(known)
	if !resumed.ConnectionState().DidResume || !works(resumed) {
		t.Fatal("the session was not resumed")
	}
	older := e.dial(e.client)
	newer := e.dial(e.client) // an address may have one
	for name, c := range map[string]struct {
		conn *tls.Conn
		want bool
	}{"first": {first, true}, "resumed": {resumed, true}, "older anonymous": {older, false}, "newer anonymous": {newer, true}} {
		if got := works(c.conn); got != c.want {
			t.Errorf("%s works: %t, want %t", name, got, c.want)
		}
	}
}

// More clients than there are turns say hello and leave; one that stays is served.
func TestAbortedHandshakeReleasesItsPlace(t *testing.T) {
	e := serveEchoes(t, limit.Bounds{Connections: 1000, ConnectionsOfAddress: 1000, Anonymous: 4, FaultsPerMinute: 9})
	for range 200 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.address)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			_ = tls.Client(conn, e.client).HandshakeContext(ctx) // it is given up
		}()
		cancel()
		<-done
		_ = conn.Close() // HandshakeContext may have closed it
	}
	if !works(e.dial(e.client)) {
		t.Error("nobody is served any more")
	}
}
