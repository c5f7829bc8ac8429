package attacks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// credential is whether an attacker shows a client certificate.
type credential int

const (
	anonymous credential = iota
	identified
)

// String names it in tables.
func (c credential) String() string {
	if c == identified {
		return "identified"
	}
	return "anonymous"
}

// Order is the JSON configuration of an attacker's process.
type Order struct {
	Attack  string
	Host    string // host:port of the server
	Dir     string // of ca.crt, attacker.crt, attacker.key
	Size    Size
	Share   int // in how many processes the attack runs
	Seconds float64
}

// Attacker does what one attack needs, and counts what came of it.
type Attacker struct {
	order Order
	tls   *tls.Config // without a certificate
	cert  tls.Certificate

	// mu guards counts.
	mu     sync.Mutex
	counts map[string]int
}

func newAttacker(o Order) (*Attacker, error) {
	ca, err := os.ReadFile(filepath.Join(o.Dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(o.Dir, "attacker.crt"), filepath.Join(o.Dir, "attacker.key"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &Attacker{
		order: o, cert: cert, counts: map[string]int{},
		tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1"},
	}, nil
}

// RunOrder runs the attack of an order, and writes what was counted, as JSON.
func RunOrder(ctx context.Context, text string, out io.Writer) error {
	var o Order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	a, err := newAttacker(o)
	if err != nil {
		return err
	}
	for _, attack := range All() {
		if attack.Name != o.Attack {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, time.Duration(o.Seconds*float64(time.Second)))
		defer cancel()
		if err := attack.run(ctx, a); err != nil && ctx.Err() == nil {
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return json.NewEncoder(out).Encode(a.counts)
	}
	return fmt.Errorf("there is no attack %q", o.Attack)
}

// size picks a number by the size of the attack, shared by its processes.
func (a *Attacker) size(short, full int) int {
	return a.order.Size.of(short, full) / max(1, a.order.Share)
}

func (a *Attacker) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[what]++
}

// parallel runs n of the same until ctx ends. One that fails is counted and, after a
// moment, begins again.
func (a *Attacker) parallel(ctx context.Context, n int, do func(ctx context.Context) error) error {
	var g errgroup.Group
	for range n {
		g.Go(func() error {
			for ctx.Err() == nil {
				if err := do(ctx); err != nil && ctx.Err() == nil {
					a.count(reason(err))
					pause(ctx, 10*time.Millisecond)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// reason is a short name of what ended a connection.
func reason(err error) string {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return "not connected"
	case errors.Is(err, errGoAway):
		return "goaway"
	default:
		return "closed"
	}
}

// dial opens a connection from an address that the attackers share; it ends with ctx.
func (a *Attacker) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 20 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", a.order.Host)
	if err != nil {
		return nil, err
	}
	return &until{Conn: conn, stop: context.AfterFunc(ctx, func() { _ = conn.Close() })}, nil
}

// until is a connection that is closed when a context ends.
type until struct {
	net.Conn

	stop func() bool
}

// Close implements net.Conn.
func (u *until) Close() error {
	u.stop()
	return u.Conn.Close()
}

// config is for TLS with or without a certificate.
func (a *Attacker) config(by credential, protocol string) *tls.Config {
	cfg := a.tls.Clone()
	cfg.NextProtos = []string{protocol}
	if by == identified {
		cfg.Certificates = []tls.Certificate{a.cert}
	}
	return cfg
}

// secure opens a connection of TLS.
func (a *Attacker) secure(ctx context.Context, by credential, protocol string) (*tls.Conn, error) {
	raw, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, a.config(by, protocol))
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	a.count("connections")
	return conn, nil
}

// web is a client of HTTP/1.1 with the attacker's certificate and a connection for
// each request under way.
func (a *Attacker) web() *http.Client {
	cfg := a.config(identified, "http/1.1")
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: cfg, MaxIdleConnsPerHost: 512,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(context.WithoutCancel(ctx)) },
	}}
}

// send sends a request, counts its status, and returns it.
func (a *Attacker) send(ctx context.Context, web *http.Client, what request) (int, error) {
	req, err := http.NewRequestWithContext(ctx, what.method, "https://"+a.order.Host+what.path, strings.NewReader(what.body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", what.media)
	began := time.Now()
	resp, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	a.count(strconv.Itoa(resp.StatusCode))
	if resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "" {
		a.count("429 without Retry-After")
	}
	if resp.StatusCode == http.StatusTooManyRequests && time.Since(began) < waitsFirst {
		a.count("429 at once")
	}
	if os.Getenv("ATTACKS_VERBOSE") != "" {
		fmt.Fprintln(os.Stderr, what.method, what.path, resp.StatusCode, time.Since(began), string(raw[:min(len(raw), 300)]))
	}
	return resp.StatusCode, nil
}

// waitsFirst is less than what a request waits for a place before it is refused, which is 5 s.
const waitsFirst = 4 * time.Second

// request is what an attacker asks.
type request struct{ method, path, media, body string }

const (
	jsonMedia  = "application/json"
	configMaps = "/api/v1/namespaces/default/configmaps"
)
