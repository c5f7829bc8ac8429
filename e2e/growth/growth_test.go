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

// growth is by how much twice the size costs more at the end of a series.
func growth(all []sample) float64 {
	if len(all) <= doublings {
		return 0
	}
	last, first := all[len(all)-1].cost, all[len(all)-1-doublings].cost
	if last < smallest {
		return 0
	}
	return math.Pow(float64(last)/float64(max(first, noise)), 1./doublings)
}

// worst is the growth at the end of a series, or the largest before it, where a refusal at its end is cheap.
func worst(all []sample) (most float64) {
	if by := growth(all); by > 0 {
		return by
	}
	for end := range len(all) + 1 {
		most = max(most, growth(all[:end]))
	}
	return most
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
				if all = least(all, s.grow(&d, enough<<try)); worst(all) <= most {
					break
				}
			}
			if len(all) == 0 {
				t.Fatal("nothing was measured")
			}
			last := all[len(all)-1]
			t.Logf("%7d: %3d for %4d KiB, %v, growth %.2f; %.150s",
				last.n, last.code, last.bytes>>10, last.cost.Round(time.Millisecond), worst(all), last.text)
			if by := worst(all); by > most {
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
