//go:build !race

// The race detector takes time of its own, and nothing here runs at once.

package growth_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// long measures up to what takes several seconds, and all dimensions; the short form ends as soon as growth can be
// seen.
var long = flag.Bool("long", false, "grow each request up to the limits of the server")

const (
	// mostGrowth is by how much a request of twice the size may cost more, on average over doublings: sorting, memory
	// that no longer fits into a cache, and noise are in it. Work with the square of the size is 4.
	mostGrowth = 2.6
	// doublings are those over which it is measured.
	doublings = 3
	// noise is what a request may take whatever its size is, and what is too little to be measured.
	noise = 5 * time.Millisecond
	// smallest is the cost from which growth counts.
	smallest = 50 * time.Millisecond
	// largestBody is a body that the server accepts, and largestHeaders are headers with a path and a
	// query.
	largestBody, largestHeaders = 3 << 20, 512 << 10
)

// dimension is what grows.
type dimension struct {
	name string
	// request is "POST /path", with the query; media is the type of the body, JSON if it is empty.
	request, media string
	// body is the request with n of something; query and header are added to it.
	body   func(n int) string
	query  func(n int) string
	header func(n int) http.Header
	// before prepares the server for n; it is not measured. Objects that it makes are there until the end.
	before func(s *server, n int)
	// after is a request that removes what the request has made: for what is not a dry run.
	after string
	// accepted is how much growth is known and bounded in another way; 0: mostGrowth.
	accepted float64
	// most is the largest n; 0: as many as a body may have.
	most int
}

// server is a whole server, and a client of it.
type server struct {
	*gapless.Server

	t      *testing.T
	client *http.Client
}

func launch(t *testing.T) *server {
	t.Helper()
	s, err := gapless.New(gapless.Config{Memory: true, Listen: "127.0.0.1:0", Bootstrap: gapless.BootstrapCluster})
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatalf("run: %v", err)
	}
	cfg := rest.CopyConfig(s.RESTConfig())
	cfg.NextProtos = []string{"http/1.1"} // long headers of HTTP/2 are read slowly (docs/attacks.md)
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	return &server{s, t, web}
}

// do sends a request, such as "GET /api", and returns the answer's code and the beginning of its body.
func (s *server) do(request, media, body string, header http.Header) (code int, text string) {
	s.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatalf("make a request: %v", err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", cmp.Or(media, "application/json"))
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatalf("%s: %v", request, err)
	}
	defer func() { _ = resp.Body.Close() }()
	begin, err := io.ReadAll(io.LimitReader(resp.Body, 400))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", request, err)
	}
	return resp.StatusCode, string(begin)
}

// must sends a request that has to succeed.
func (s *server) must(request, body string) {
	s.t.Helper()
	if code, text := s.do(request, "", body, nil); code >= http.StatusMultipleChoices {
		s.t.Fatalf("%s: %d %s", request, code, text)
	}
}

// processorTime is what the process has used so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatalf("read the CPU time: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// sample is what one request cost.
type sample struct {
	n, bytes int
	code     int
	cost     time.Duration
	text     string
}

// measure sends one request of a dimension. It returns false, and sends none, if it is larger than any may be.
func (s *server) measure(d *dimension, n int) (out sample, fits bool) {
	s.t.Helper()
	request, body := d.request, ""
	if d.query != nil {
		request += d.query(n)
	}
	if d.body != nil {
		body = d.body(n)
	}
	var header http.Header
	if d.header != nil {
		header = d.header(n)
	}
	headers := len(request) + sizeOf(header)
	if len(body) > largestBody || headers > largestHeaders {
		return out, false
	}
	if d.before != nil {
		d.before(s, n)
	}
	runtime.GC()
	began := processorTime(s.t)
	out = sample{n: n, bytes: headers + len(body)}
	out.code, out.text = s.do(request, d.media, body, header)
	out.cost = processorTime(s.t) - began
	if d.after != "" && out.code < http.StatusMultipleChoices {
		s.do(d.after, "", "", nil) // a controller may have been faster
	}
	return out, true
}

func sizeOf(h http.Header) (size int) {
	for name, values := range h {
		for _, v := range values {
			size += len(name) + len(v) + 4
		}
	}
	return size
}

// grow doubles a dimension until the server refuses it for its size, or it costs enough.
func (s *server) grow(d *dimension, enough time.Duration) (all []sample) {
	s.t.Helper()
	for n := 64; d.most == 0 || n <= d.most; n *= 2 {
		one, fits := s.measure(d, n)
		if !fits {
			break
		}
		all = append(all, one)
		if one.code == http.StatusRequestEntityTooLarge || one.code == http.StatusRequestHeaderFieldsTooLarge ||
			one.cost > enough && len(all) > doublings {
			break
		}
	}
	return all
}

// least has of each size the series' smallest cost: what else the process and the machine did is in the others.
func least(all, again []sample) []sample {
	for i, one := range again {
		if i == len(all) {
			all = append(all, one)
		} else if one.cost < all[i].cost {
			all[i] = one
		}
	}
	return all
}

// growth is by how much twice the size costs more at the end of a series, over doublings, or over one more where that is
// less: the first collection of memory is a step of several times, and what grows with the square does so over both.
func growth(all []sample) float64 {
	for len(all) > 0 && all[len(all)-1].cost < smallest { // such as the refusal at its end
		all = all[:len(all)-1]
	}
	if len(all) <= doublings {
		return 0
	}
	end := len(all) - 1
	over := func(span int) float64 {
		return math.Pow(float64(all[end].cost)/float64(max(all[end-span].cost, noise)), 1/float64(span))
	}
	if end > doublings && all[end-doublings-1].cost >= noise {
		return min(over(doublings), over(doublings+1))
	}
	return over(doublings)
}

func TestNoRequestCostsMoreThanItsSize(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a minute of CPU: requests that grow up to what takes tenths of a second")
	}
	s := launch(t)
	prepare(s)
	enough := 120 * time.Millisecond
	if *long {
		enough = 5 * time.Second
	}
	for _, d := range dimensions() {
		t.Run(d.name, func(t *testing.T) {
			s.t = t
			most := cmp.Or(d.accepted, mostGrowth)
			var all []sample
			// Noise, such as the first collection of memory, counts less in what costs more.
			for try := range 4 {
				if all = least(all, s.grow(&d, enough<<try)); growth(all) <= most {
					break
				}
			}
			if len(all) == 0 {
				t.Fatal("nothing was measured")
			}
			last := all[len(all)-1]
			t.Logf("%7d: %3d for %4d KiB, %v, growth %.2f; %.150s",
				last.n, last.code, last.bytes>>10, last.cost.Round(time.Millisecond), growth(all), last.text)
			if by := growth(all); by > most {
				t.Errorf("twice as much costs %.2f times as much, want at most %.1f:\n%s", by, most, table(all))
			}
		})
	}
}

func table(all []sample) string {
	var out strings.Builder
	for _, one := range all {
		fmt.Fprintf(&out, "%8d: %d for %d bytes: %v\n", one.n, one.code, one.bytes, one.cost)
	}
	return out.String()
}

func TestGrowthTellsStepsFromSquares(t *testing.T) {
	series := func(ms ...int) (all []sample) {
		for _, cost := range ms {
			all = append(all, sample{cost: time.Duration(cost) * time.Millisecond})
		}
		return all
	}
	for _, c := range []struct {
		name string
		all  []sample
		much bool
	}{
		{"linear", series(1, 2, 4, 8, 16, 32, 64), false},
		{"linear with a step", series(1, 2, 5, 6, 28, 57, 150), false},
		{"linear with a step, then refused", series(2, 3, 6, 28, 57, 170, 292, 5), false},
		{"square", series(1, 4, 16, 64, 256), true},
		{"square at the end", series(5, 10, 20, 50, 200, 800, 3200), true},
		{"square, then refused", series(2, 8, 32, 128, 512, 5, 5), true},
		{"too short", series(1, 4, 16), false},
	} {
		if by := growth(c.all); (by > mostGrowth) != c.much {
			t.Errorf("%s: %.2f", c.name, by)
		}
	}
}
