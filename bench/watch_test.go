package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

const watchers = 1000

// crowd is a set of watchers on one collection that count what they get.
type crowd struct {
	wg     sync.WaitGroup
	events atomic.Int64
	fails  atomic.Int64

	mu sync.Mutex
	// mu guards latencies of a sample of watchers.
	latencies []time.Duration
}

// watch opens n watches and returns when each has its answer's header.
func watch(ctx context.Context, b *testing.B, s *server, clients []*http.Client, n int) *crowd {
	b.Helper()
	c := &crowd{}
	if err := inParallel(16, n, func(i int) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+collection+"?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=3600", nil)
		if err != nil {
			return err
		}
		resp, err := clients[i%len(clients)].Do(req)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			return fmt.Errorf("watch %d: %s", i, resp.Status)
		}
		c.wg.Go(func() {
			defer resp.Body.Close()
			c.read(ctx, resp, i%50 == 0)
		})
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	return c
}

func (c *crowd) read(ctx context.Context, resp *http.Response, sample bool) {
	lines := bufio.NewReaderSize(resp.Body, 32<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if ctx.Err() == nil {
				c.fails.Add(1)
			}
			return
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		c.events.Add(1)
		if sample {
			c.note(line)
		}
	}
}

// note records how long the event took from the writer to here.
func (c *crowd) note(line []byte) {
	_, rest, ok := bytes.Cut(line, []byte(`"sent":"`))
	if !ok {
		return
	}
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	nanos, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return
	}
	took := time.Since(time.Unix(0, nanos))
	c.mu.Lock()
	c.latencies = append(c.latencies, took)
	c.mu.Unlock()
}

func (c *crowd) p99() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.latencies) == 0 {
		return 0
	}
	slices.Sort(c.latencies)
	return c.latencies[len(c.latencies)*99/100]
}

// BenchmarkWatch delivers b.N changes, written flat out by 8 writers, to 1 000
// watchers of one collection, over HTTP/1.1 and over ten HTTP/2 connections.
func BenchmarkWatch(b *testing.B) {
	for _, proto := range []string{"http1", "http2"} {
		b.Run(fmt.Sprintf("%s/watchers=%d", proto, watchers), func(b *testing.B) {
			s := start(b)
			clients := []*http.Client{s.client(watchers)}
			if proto == "http2" {
				clients = nil
				for range 10 {
					clients = append(clients, s.client2())
				}
			}
			empty := s.rss(b)
			ctx, cancel := context.WithCancel(b.Context())
			c := watch(ctx, b, s, clients, watchers)
			idle := float64(s.rss(b)-empty) / watchers
			flood(b, s, c)
			b.ReportMetric(idle, "rss-bytes/idle-watcher")
			cancel()
			c.wg.Wait()
			for _, client := range clients {
				client.CloseIdleConnections()
			}
			if n := c.fails.Load(); n > 0 {
				b.Errorf("%d watches were cut", n)
			}
		})
	}
}

// flood writes b.N changes and waits until every watcher has every one.
func flood(b *testing.B, s *server, c *crowd) {
	writer := s.client(8)
	defer writer.CloseIdleConnections()
	before := s.cpu(b)
	b.ResetTimer()
	began := time.Now()
	if err := inParallel(8, b.N, func(i int) error {
		stamp := strconv.FormatInt(time.Now().UnixNano(), 10)
		_, err := do(b.Context(), writer, http.MethodPost, s.url+collection, configMap(fmt.Sprintf("w-%d", i), stamp))
		return err
	}); err != nil {
		b.Fatal(err)
	}
	want := int64(b.N) * watchers
	harness.Eventually(b, "every watcher has every event", func() bool { return c.events.Load() >= want || c.fails.Load() > 0 })
	took := time.Since(began)
	b.StopTimer()
	if got := c.events.Load(); got != want {
		b.Errorf("delivered %d events instead of %d", got, want)
	}
	b.ReportMetric(float64(want)/took.Seconds(), "events/s")
	b.ReportMetric(float64((s.cpu(b)-before).Nanoseconds())/1000/float64(want), "server-cpu-us/event")
	b.ReportMetric(float64(c.p99().Microseconds())/1000, "p99-ms")
}
