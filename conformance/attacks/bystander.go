package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

// Bystander is a well-behaved client, by HTTP/1.1 and HTTP/2: it reads, writes, and
// watches what it writes; and it writes objects so large that they wait for a processor.
type Bystander struct {
	server *program.Server

	// mu guards all below.
	mu     sync.Mutex
	took   map[string][]time.Duration // by what it did
	failed []string
}

func (b *Bystander) note(what string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.took[what] = append(b.took[what], d)
}

func (b *Bystander) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = append(b.failed, fmt.Sprintf(format, args...))
}

// work works until ctx ends.
func (b *Bystander) work(ctx context.Context, name string) error {
	var g errgroup.Group
	for i, p := range []program.Protocol{program.HTTP1, program.HTTP2} {
		client, err := b.server.Client(p)
		if err != nil {
			return err
		}
		object := fmt.Sprintf("%s-%d", name, i+1)
		g.Go(func() error {
			defer client.Close()
			b.follow(ctx, client, object)
			return nil
		})
		g.Go(func() error {
			b.every(ctx, 500*time.Millisecond, func() { b.visit(ctx, p) })
			return nil
		})
	}
	large, err := b.server.Client(program.HTTP1)
	if err != nil {
		return err
	}
	g.Go(func() error {
		defer large.Close()
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"large-"},"data":{"a":%q}}`,
			strings.Repeat("x", 100_000))
		b.every(ctx, 500*time.Millisecond, func() {
			b.do(ctx, large, "write 100 KB", http.MethodPost, configMaps+"?dryRun=All", body, http.StatusCreated)
		})
		return nil
	})
	return g.Wait()
}

func (b *Bystander) every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// visit reads by a new connection, as a command of kubectl does.
func (b *Bystander) visit(ctx context.Context, p program.Protocol) {
	client, err := b.server.Client(p)
	if err != nil {
		b.fail("%v", err)
		return
	}
	defer client.Close()
	b.do(ctx, client, "connect and read", http.MethodGet, "/readyz", nil, http.StatusOK)
	b.do(ctx, client, "metrics", http.MethodGet, "/metrics", nil, http.StatusOK)
}

func (b *Bystander) do(ctx context.Context, c *program.Client, what, method, path string, body []byte, want int) []byte {
	began := time.Now()
	answer := c.Do(context.WithoutCancel(ctx), method, path, body)
	b.note(what, time.Since(began))
	if answer.Code != want {
		b.fail("%s: %s %s: %s", what, method, path, answer)
	}
	return answer.Body
}

// follow creates an object, and changes and reads it every 50 ms; each change must
// arrive on the watch.
func (b *Bystander) follow(ctx context.Context, c *program.Client, name string) {
	body := func(n int) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"n":"%d","sent":"%d"}}`,
			name, n, time.Now().UnixNano())
	}
	made := b.do(ctx, c, "write", http.MethodPost, configMaps, body(0), http.StatusCreated)
	var first struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(made, &first); err != nil {
		b.fail("read what was made: %v", err)
		return
	}
	watch, refused := c.Watch(context.WithoutCancel(ctx),
		configMaps+"?watch=1&fieldSelector=metadata.name%3D"+name+"&resourceVersion="+first.Metadata.ResourceVersion)
	if watch == nil {
		b.fail("watch: %s", refused)
		return
	}
	seen := make(chan int, 1)
	go func() { seen <- b.watch(watch) }() // ends with the watch
	n := 0
	b.every(ctx, 50*time.Millisecond, func() {
		n++
		b.do(ctx, c, "write", http.MethodPut, configMaps+"/"+name, body(n), http.StatusOK)
		b.do(ctx, c, "read", http.MethodGet, configMaps+"/"+name, nil, http.StatusOK)
	})
	b.do(ctx, c, "write", http.MethodDelete, configMaps+"/"+name, nil, http.StatusOK)
	select {
	case got := <-seen:
		if got != n {
			b.fail("%d changes were written and %d came by the watch", n, got)
		}
	case <-time.After(20 * time.Second):
		b.fail("the watch did not show the end within 20 s")
	}
	watch.Close()
}

// watch counts changes up to the deletion.
func (b *Bystander) watch(s *program.Stream) int {
	for n := 0; ; n++ {
		e, err := s.Next()
		if err != nil {
			b.fail("watch: %v", err)
			return n
		}
		var o struct {
			Data struct {
				Sent int64 `json:"sent,string"`
			}
		}
		if e.Type == "DELETED" {
			return n
		}
		if err := json.Unmarshal(e.Object, &o); err != nil || e.Type != "MODIFIED" {
			b.fail("watch: %s %s: %v", e.Type, e.Object, err)
			return n
		}
		b.note("event", time.Since(time.Unix(0, o.Data.Sent)))
	}
}

// Latency is what one kind of work took.
type Latency struct {
	P50, P99, Max time.Duration
	Count         int
}

func (b *Bystander) latencies() map[string]Latency {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]Latency{}
	for what, took := range b.took {
		slices.Sort(took)
		n := len(took)
		out[what] = Latency{took[n/2], took[n*99/100], took[n-1], n}
	}
	return out
}
