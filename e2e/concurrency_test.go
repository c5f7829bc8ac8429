package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless"
)

// counters are ConfigMaps whose data.x is a number that many writers increment.
type counters struct {
	caller       *caller
	keys         int
	acknowledged atomic.Int64
	conflicts    atomic.Int64
}

func counterName(i int) string { return fmt.Sprintf("counter-%02d", i) }

// increment adds one to a counter by reading and replacing it, as often as it
// takes.
func (c *counters) increment(ctx context.Context, name string) error {
	path := configMaps + "/" + name
	for {
		r, err := c.caller.try(ctx, http.MethodGet, path, "")
		if err != nil {
			return err
		}
		o, err := r.decode()
		if err != nil || r.code != http.StatusOK {
			return errors.Join(err, fmt.Errorf("get %s: %d %s", name, r.code, r.body))
		}
		n, err := strconv.Atoi(o.text("data", "x"))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		body := fmt.Sprintf(
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"resourceVersion":%q},"data":{"x":"%d"}}`,
			name, o.rv(), n+1)
		r, err = c.caller.try(ctx, http.MethodPut, path, body)
		switch {
		case err != nil:
			return err
		case r.code == http.StatusOK:
			c.acknowledged.Add(1)
			return nil
		case r.code != http.StatusConflict:
			return fmt.Errorf("put %s: %d %s", name, r.code, r.body)
		}
		c.conflicts.Add(1)
	}
}

// churn creates and deletes one object again and again.
func churn(ctx context.Context, c *caller, name string, rounds int) error {
	for range rounds {
		r, err := c.try(ctx, http.MethodPost, configMaps, configMapBody(name, "1"))
		if err != nil || r.code != http.StatusCreated {
			return errors.Join(err, fmt.Errorf("create %s: %d %s", name, r.code, r.body))
		}
		r, err = c.try(ctx, http.MethodDelete, configMaps+"/"+name, "")
		if err != nil || r.code != http.StatusOK {
			return errors.Join(err, fmt.Errorf("delete %s: %d %s", name, r.code, r.body))
		}
	}
	return nil
}

// replica is what a watcher knows.
type replica struct {
	state  map[string]string // key → resourceVersion and content
	at     int64             // the last revision
	events int
}

func content(o tree) string { return o.rv() + " " + o.text("data", "x") }

// follow replays a watch until the object named end comes. Every write of the
// test is an event of the watch, so that revisions must come without a gap.
func (r *replica) follow(ctx context.Context, c *caller) error {
	s, err := c.follow(ctx, fmt.Sprintf("%s?watch=1&resourceVersion=%d", configMaps, r.at))
	if err != nil {
		return err
	}
	defer s.close()
	for {
		f, err := s.read()
		if err != nil {
			return fmt.Errorf("after revision %d: %w", r.at, err)
		}
		rv, err := strconv.ParseInt(f.object.rv(), 10, 64)
		if err != nil || rv != r.at+1 {
			return errors.Join(err, fmt.Errorf("%s follows revision %d", f, r.at))
		}
		r.at = rv
		r.events++
		key := f.object.key()
		_, known := r.state[key]
		switch {
		case f.kind == "ADDED" && !known, f.kind == "MODIFIED" && known:
			r.state[key] = content(f.object)
		case f.kind == "DELETED" && known:
			delete(r.state, key)
		default:
			return fmt.Errorf("%s, but that it is known is %v", f, known)
		}
		if key == "default/end" {
			return nil
		}
	}
}

// TestConcurrentWritersLoseNoUpdateAndWatchersSeeEveryRevision increments counters from
// many sides under optimistic concurrency, while watchers of both protocols
// follow, some from the beginning and some that come later and catch up.
func TestConcurrentWritersLoseNoUpdateAndWatchersSeeEveryRevision(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	const keys, writers, each, churners, watchers = 50, 16, 40, 4, 8
	l := launch(t, gapless.Config{})
	callers := []*caller{l.caller(t, http1), l.caller(t, http2)}
	begin := number(t, callers[0].current())
	for i := range keys {
		callers[0].create("default", counterName(i), "0")
	}
	c := &counters{caller: callers[1], keys: keys}
	replicas := make([]*replica, watchers)
	follow, ctx := errgroup.WithContext(t.Context())
	start := func(i int) {
		replicas[i] = &replica{state: map[string]string{}, at: begin}
		follow.Go(func() error { return replicas[i].follow(ctx, callers[i%2]) })
	}
	for i := range watchers / 2 {
		start(i)
	}
	write, writing := errgroup.WithContext(t.Context())
	for w := range writers {
		random := rand.New(rand.NewPCG(7, uint64(w)))
		write.Go(func() error {
			for range each {
				if err := c.increment(writing, counterName(random.IntN(keys))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range churners {
		write.Go(func() error { return churn(writing, callers[i%2], fmt.Sprintf("churn-%d", i), each) })
	}
	for i := watchers / 2; i < watchers; i++ {
		start(i)
	}
	if err := write.Wait(); err != nil {
		t.Fatalf("wait for the write: %v", err)
	}
	end := callers[0].create("default", "end", "0").rv()
	if err := follow.Wait(); err != nil {
		t.Fatalf("wait for the watch: %v", err)
	}
	if got := c.acknowledged.Load(); got != writers*each {
		t.Errorf("%d increments were acknowledged, want %d", got, writers*each)
	}
	checkReplicas(t, c, replicas, end)
}

// checkReplicas compares with the server's state.
func checkReplicas(t *testing.T, c *counters, replicas []*replica, end string) {
	t.Helper()
	list := c.caller.must(http.StatusOK, http.MethodGet, configMaps, "")
	if list.rv() != end {
		t.Errorf("the list is at %s, the last write was at %s", list.rv(), end)
	}
	state := map[string]string{}
	sum := int64(0)
	items, _ := list.at("items").([]any)
	for _, item := range items {
		raw, _ := item.(map[string]any)
		o := tree(raw)
		state[o.key()] = content(o)
		sum += number(t, o.text("data", "x"))
	}
	if len(state) != c.keys+1 || sum != c.acknowledged.Load() {
		t.Errorf("%d objects have the sum %d, want %d with %d", len(state), sum, c.keys+1, c.acknowledged.Load())
	}
	for i, r := range replicas {
		if len(r.state) != len(state) {
			t.Errorf("watcher %d knows %d objects, want %d", i, len(r.state), len(state))
		}
		for key, want := range state {
			if r.state[key] != want {
				t.Errorf("watcher %d knows %s as %q, want %q", i, key, r.state[key], want)
			}
		}
	}
	t.Logf("%d events, %d conflicts", replicas[0].events, c.conflicts.Load())
}
