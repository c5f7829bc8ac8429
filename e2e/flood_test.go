//go:build linux

package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// floodSize is the number of connections of the flood, unless GAPLESS_FLOOD says
	// another.
	floodSize = 2000
	// floodBound is what the server may need for a connection of the flood, in KB. One
	// that is blocked holds a piece of its watch (32 KB), a record of TLS (16 KB), the
	// stacks of two goroutines and what TLS remembers: 80 KB, and the collector lets
	// memory grow to twice what is in use.
	floodBound = 160
	// floodRest is what the server may need besides, in KB: the objects, the writes.
	floodRest = 96 << 10
	// unsentBound is what the kernel may keep for a watch of HTTP/1.1, in bytes:
	// stream's unsentBytes, one write more, and what is on its way.
	unsentBound = 512 << 10
)

// flooder opens connections that only use up resources.
type flooder struct {
	p   *process
	cfg *tls.Config

	// mu guards all below.
	mu    sync.Mutex
	conns []net.Conn
	slow  []net.Conn // those that send a byte every 5 s
}

// hostileKind is one kind of such connections.
type hostileKind struct {
	name  string
	share int // in hundredths of the flood
	open  func(ctx context.Context, f *flooder) error
}

const floodWatch = "/api/v1/namespaces/flood/configmaps?watch=1&resourceVersion="

func hostileKinds(rv string) []hostileKind {
	get := "GET " + floodWatch + rv + " HTTP/1.1\r\nHost: x\r\n"
	return []hostileKind{
		{"HTTP/1.1 watches without a reader", 40, sendTLS("http/1.1", get+"\r\n", sendAll)},
		{"WebSocket watches without a reader", 20, sendTLS("http/1.1", get+
			"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+
			"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", sendAll)},
		{"HTTP/2 watches without a reader", 10, sendTLS("h2", http2Get(floodWatch+rv), sendAll)},
		{"idle connections", 10, func(ctx context.Context, f *flooder) error {
			_, err := f.dial(ctx)
			return err
		}},
		{"half a TLS ClientHello", 10, func(ctx context.Context, f *flooder) error {
			conn, err := f.dial(ctx)
			if err == nil {
				_, err = conn.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}) // a record of 512 bytes
			}
			return err
		}},
		{"headers sent byte by byte", 5, sendTLS("http/1.1", "GET /api HTTP/1.1\r\nHost: x\r\nX-Slow: ", bytewise)},
		{
			"bodies sent byte by byte", 5,
			sendTLS("http/1.1",
				"POST /api/v1/namespaces/flood/configmaps HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{", bytewise),
		},
	}
}

// remainder says how the rest of a request is sent.
type remainder int

const (
	sendAll remainder = iota
	bytewise
)

// sendTLS opens a TLS connection and writes text to it.
func sendTLS(protocol, text string, rest remainder) func(context.Context, *flooder) error {
	return func(ctx context.Context, f *flooder) error {
		raw, err := f.dial(ctx)
		if err != nil {
			return err
		}
		cfg := f.cfg.Clone()
		cfg.ServerName, cfg.NextProtos = "127.0.0.1", []string{protocol}
		conn := tls.Client(raw, cfg)
		if err := conn.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		if rest == bytewise {
			f.mu.Lock()
			f.slow = append(f.slow, conn)
			f.mu.Unlock()
		}
		_, err = io.WriteString(conn, text)
		return err
	}
}

// dial opens a connection with a small receive buffer.
func (f *flooder) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		control := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
		return errors.Join(control, err)
	}}
	conn, err := d.DialContext(ctx, "tcp", f.p.host())
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns = append(f.conns, conn)
	}
	return conn, err
}

// http2Get returns the preface of an HTTP/2 client, and a GET: RFC 9113 3.4, 6;
// RFC 7541 6.2.2.
func http2Get(path string) string {
	frame := func(kind, flags byte, stream uint32, payload string) string {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
	}
	var block strings.Builder
	for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}} {
		block.WriteString("\x00" + string(rune(len(h[0]))) + h[0] + string(rune(len(h[1]))) + h[1])
	}
	return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "") + frame(1, 0x5, 1, block.String())
}

// open opens so many connections of a sort.
func (f *flooder) open(ctx context.Context, i hostileKind, n int) error {
	var g errgroup.Group
	g.SetLimit(64)
	for range n {
		g.Go(func() error { return i.open(ctx, f) })
	}
	return g.Wait()
}

func (f *flooder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close() // the server may have
	}
	f.conns = nil
}

// trickle sends a byte every 5 s until ctx ends: often enough to keep a connection that
// is only closed when idle.
func (f *flooder) trickle(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.mu.Lock()
		for _, c := range f.slow {
			_, _ = c.Write([]byte("x")) // the server may have given it up
		}
		f.mu.Unlock()
	}
}

// bystanders are normal watchers, and the writer of the objects they watch.
type bystanders struct {
	t     *testing.T
	phase atomic.Int32
	acked []string // resource versions

	// mu guards seen and took.
	mu   sync.Mutex
	seen [][]string                // of each watcher, in its order
	took map[int32][]time.Duration // from the start of a write to its event, by phase
}

// follow watches until the last event, which is called "end".
func (c *bystanders) follow(at int, s *stream) error {
	for {
		f, err := s.read()
		if err != nil {
			return fmt.Errorf("watcher %d: %w", at, err)
		}
		sent, err := strconv.ParseInt(f.object.text("data", "sent"), 10, 64)
		if err != nil {
			return fmt.Errorf("watcher %d: %s: %w", at, f, err)
		}
		took := time.Duration(time.Now().UnixNano() - sent)
		c.mu.Lock()
		c.seen[at] = append(c.seen[at], f.object.rv())
		c.took[c.phase.Load()] = append(c.took[c.phase.Load()], took)
		c.mu.Unlock()
		if f.object.key() == "default/end" {
			return nil
		}
	}
}

// write creates a ConfigMap with the time.
func (c *bystanders) write(by *caller, name string) {
	c.t.Helper()
	o := by.must(http.StatusCreated, http.MethodPost, configMaps, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"sent":"%d"}}`, name, time.Now().UnixNano()))
	c.acked = append(c.acked, o.rv())
}

// work writes for a time.
func (c *bystanders) work(by *caller, phase int32, d time.Duration) {
	c.t.Helper()
	c.phase.Store(phase)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	over := time.After(d)
	for i := 0; ; i++ {
		c.write(by, fmt.Sprintf("p%d-%d", phase, i))
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// percentiles formats the latencies of a phase.
func (c *bystanders) percentiles(phase int32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took[phase]
	if len(took) == 0 {
		return "nothing"
	}
	slices.Sort(took)
	return fmt.Sprintf("p50 %v, p99 %v of %d events",
		took[len(took)/2].Round(10*time.Microsecond), took[len(took)*99/100].Round(10*time.Microsecond), len(took))
}

// TestConnectionFloodNeedsBoundedMemoryAndLosesNoEvent opens connections that never read,
// that stop in the middle of a handshake, and that send a byte at a time, while
// writers write and normal clients watch. Run it with GAPLESS_FLOOD=10000 for the full
// form, which also waits until the server has closed the slow ones.
func TestConnectionFloodNeedsBoundedMemoryAndLosesNoEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 14 s")
	}
	size, full, writing := floodSize, false, time.Second
	if text := os.Getenv("GAPLESS_FLOOD"); text != "" {
		var err error
		if size, err = strconv.Atoi(text); err != nil {
			t.Fatalf("read a number: %v", err)
		}
		full, writing = true, 5*time.Second // latencies of a second say little
	}
	p := startProcess(t)
	h1, h2 := p.caller(t, http1), p.caller(t, http2)
	h1.namespace("flood")
	rv := h1.current()
	c := &bystanders{t: t, seen: make([][]string, 20), took: map[int32][]time.Duration{}}
	var watchers errgroup.Group
	for i := range c.seen {
		s := []*caller{h1, h2}[i%2].watch(configMaps + "?watch=1&resourceVersion=" + rv)
		watchers.Go(func() error { return c.follow(i, s) })
	}
	c.work(h1, 0, writing)
	base := p.status("VmRSS")
	t.Logf("without the flood: %d MB, %s", base>>10, c.percentiles(0))

	f := &flooder{p: p, cfg: p.tls()}
	defer f.close()
	slow, cancel := context.WithCancel(t.Context())
	var trickling sync.WaitGroup
	defer trickling.Wait()
	defer cancel()
	trickling.Go(func() { f.trickle(slow) }) // ends with slow
	began := f.rise(t, hostileKinds(rv), size)
	until(t, "all watches of the flood are open", time.Minute, func() bool { return watching(h1) == len(c.seen)+size*70/100 })
	c.flood(h1, p)
	held := p.status("VmRSS")
	all, most := p.queued()
	c.work(h1, 2, writing)
	c.phase.Store(3)
	c.write(h1, "end")
	if err := watchers.Wait(); err != nil {
		t.Errorf("wait watchers: %v", err)
	}
	for i, seen := range c.seen {
		if !slices.Equal(seen, c.acked) {
			t.Errorf("watcher %d saw %d events, not the %d that were written", i, len(seen), len(c.acked))
		}
	}
	peak := p.status("VmHWM")
	t.Logf("while %d connections fill up: %s", size, c.percentiles(1))
	t.Logf("while they are held: %d MB, %s", held>>10, c.percentiles(2))
	t.Logf("at most %d MB: %d KB for each of them; the kernel keeps %d MB, at most %d KB for one",
		peak>>10, (peak-base)/size, all>>20, most>>10)
	if bound := base + size*floodBound + floodRest; peak > bound {
		t.Errorf("the server needed %d KB, more than %d", peak, bound)
	}
	if most > unsentBound {
		t.Errorf("the kernel keeps %d bytes for one watch", most)
	}
	if full {
		f.expire(t, began)
	}
	stopping := time.Now()
	p.stop()
	t.Logf("SIGTERM ends it under the flood in %v", time.Since(stopping).Round(time.Millisecond))
}

// watching returns the number of open watches.
func watching(by *caller) int {
	by.t.Helper()
	open := 0
	for _, found := range regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.* (\d+)$`).FindAllSubmatch(
		by.do(http.MethodGet, "/metrics", "").body, -1) {
		n, err := strconv.Atoi(string(found[1]))
		if err != nil {
			by.t.Fatalf("read a number: %v", err)
		}
		open += n
	}
	return open
}

// rise opens the connections, and logs the memory of each kind.
func (f *flooder) rise(t *testing.T, sorts []hostileKind, size int) (began time.Time) {
	t.Helper()
	f.conns = make([]net.Conn, 0, size)
	began = time.Now()
	for _, i := range sorts {
		before, n := f.p.status("VmRSS"), size*i.share/100
		if err := f.open(t.Context(), i, n); err != nil {
			t.Fatalf("%s: %v", i.name, err)
		}
		t.Logf("%5d %-36s %4d KB each", n, i.name, (f.p.status("VmRSS")-before)/n)
	}
	return began
}

// flood writes to the namespace that the flood watches until all of its watches are
// blocked, and to that of the bystanders.
func (c *bystanders) flood(by *caller, p *process) {
	c.t.Helper()
	c.phase.Store(1)
	large := strings.Repeat("x", 32<<10)
	for i := range 40 { // 1.3 MB: more than anything on the way takes
		c.write(by, fmt.Sprintf("p1-%d", i))
		by.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/flood/configmaps", fmt.Sprintf(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"f%d"},"data":{"x":%q}}`, i, large))
	}
	last, _ := p.queued()
	quiet := time.Now()
	until(c.t, "the watches without a reader are blocked", time.Minute, func() bool {
		now, _ := p.queued()
		if now != last {
			last, quiet = now, time.Now()
		}
		return time.Since(quiet) > time.Second
	})
}

// expire waits until the server has closed the slow connections: after 30 s in a
// handshake or header, 61 s in a body.
func (f *flooder) expire(t *testing.T, began time.Time) {
	t.Helper()
	for i, c := range f.slow {
		if err := c.SetReadDeadline(began.Add(3 * time.Minute)); err != nil {
			t.Fatalf("set read deadline: %v", err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("slow connection %d is still open after %v", i, time.Since(began))
		}
	}
	t.Logf("%d connections that sent a byte at a time were given up within %v", len(f.slow), time.Since(began).Round(time.Second))
}
