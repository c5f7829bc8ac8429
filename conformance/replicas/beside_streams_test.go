package replicas_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/layout"
)

// seen is an event of a watch, or what etcd says that it must be.
type seen struct {
	Type    string
	Version string
	Object  map[string]any
}

// stream is a watch over the whole run. It may move from one server to the other.
type stream struct {
	view *kinds.Resource
	stop context.CancelFunc
	done chan struct{}

	mu sync.Mutex
	// mu guards the following.
	events []seen
	broken error // why it ended, unless it was stopped
}

// open watches at a server from a resourceVersion, until halt.
func (s *stream) open(t *testing.T, at *end, version string) {
	t.Helper()
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	s.done = make(chan struct{})
	go func(done chan struct{}) { // halt waits for it
		defer close(done)
		err := s.follow(ctx, at, version)
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil {
			s.broken = fmt.Errorf("the watch of %s at %s from %s: %w", s.view.Plural, at.name, version, err)
		}
	}(s.done)
}

func (s *stream) halt() {
	s.stop()
	<-s.done
}

func (s *stream) follow(ctx context.Context, at *end, version string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		at.url+pathOf(s.view, "", "")+"?watch=true&resourceVersion="+version, nil)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	resp, err := at.web.Do(req)
	if err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it has ended
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	d := json.NewDecoder(resp.Body)
	d.UseNumber()
	for {
		var e struct {
			Type   string
			Object map[string]any
		}
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		metadata, _ := e.Object["metadata"].(map[string]any)
		rv, _ := metadata["resourceVersion"].(string)
		if e.Type == "ERROR" || rv == "" {
			return fmt.Errorf("the event is %s of %s", e.Type, jsonOf(e.Object))
		}
		s.mu.Lock()
		s.events = append(s.events, seen{e.Type, rv, e.Object})
		s.mu.Unlock()
	}
}

// read returns the events so far.
func (s *stream) read() ([]seen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events, s.broken
}

// last is the resourceVersion of the last event, or the one given.
func (s *stream) last(otherwise string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == 0 {
		return otherwise
	}
	return s.events[len(s.events)-1].Version
}

// pair are the watches of one view at both servers.
type pair struct {
	view           *kinds.Resource
	upstream, ours *stream
}

// witness knows from etcd itself which events there must be.
type witness struct {
	client *clientv3.Client
	layout *layout.Layout
	since  int64 // the revision at which the run began
	watch  clientv3.WatchChan
	pairs  []*pair

	expected map[kinds.GroupResource][]seen // without objects
	read     int64                          // the revision up to which expected has all
}

// watchAll opens the watches of all views at both servers, and etcd's.
func (b *both) watchAll(t *testing.T, client *clientv3.Client, live *kinds.Live) *witness {
	t.Helper()
	w := &witness{client: client, layout: layout.New("/registry", live), expected: map[kinds.GroupResource][]seen{}}
	for _, r := range live.Load().Resources() {
		if r.Home().StorageVersion == "" {
			continue
		}
		w.pairs = append(w.pairs, &pair{view: r, upstream: &stream{view: r}, ours: &stream{view: r}})
		// It also makes sure that the cache of kube-apiserver is not newer than the beginning of the watches.
		if _, err := b.upstream.get(t.Context(), pathOf(r, "", "")); err != nil {
			t.Fatalf("list before the watch: %v", err)
		}
	}
	now, err := client.Get(t.Context(), "nothing")
	if err != nil {
		t.Fatalf("read etcd's revision: %v", err)
	}
	w.since = now.Header.Revision
	w.watch = client.Watch(t.Context(), "", clientv3.WithFromKey(), clientv3.WithRev(w.since+1))
	for _, p := range w.pairs {
		p.upstream.open(t, b.upstream, w.from())
		p.ours.open(t, b.ours, w.from())
	}
	t.Cleanup(func() {
		for _, p := range w.pairs {
			p.upstream.halt()
			p.ours.halt()
		}
	})
	return w
}

func (w *witness) from() string { return strconv.FormatInt(w.since, 10) }

// catchUp reads etcd's watch up to now.
func (w *witness) catchUp(t *testing.T) {
	t.Helper()
	const mark = "/beside/mark"
	put, err := w.client.Put(t.Context(), mark, "")
	if err != nil {
		t.Fatalf("write a mark: %v", err)
	}
	for w.read < put.Header.Revision {
		resp, open := <-w.watch
		if err := resp.Err(); err != nil || !open {
			t.Fatalf("the watch of etcd has ended: %v", err)
		}
		for _, e := range resp.Events {
			w.read = e.Kv.ModRevision
			key, is := w.layout.StoreKey(string(e.Kv.Key))
			if !is {
				continue
			}
			name, _, _ := strings.Cut(key, "/")
			plural, group, _ := strings.Cut(name, ".")
			gr := kinds.GroupResource{Group: group, Resource: plural}
			of := "MODIFIED"
			switch {
			case e.Type == clientv3.EventTypeDelete:
				of = "DELETED"
			case e.IsCreate():
				of = "ADDED"
			}
			w.expected[gr] = append(w.expected[gr], seen{Type: of, Version: strconv.FormatInt(e.Kv.ModRevision, 10)})
		}
	}
}

// check waits until the watches at both servers have what etcd has, and compares them. While gapless is stopped, only
// those of kube-apiserver are looked at.
func (r *run) check(t *testing.T) {
	t.Helper()
	r.catchUp(t)
	shown := map[*stream][]seen{}
	events := 0
	for _, p := range r.pairs {
		must := len(r.expected[p.view.Home().GR()])
		events += must
		for _, s := range []*stream{p.upstream, p.ours} {
			if s == p.ours && r.alone == r.upstream {
				continue
			}
			harness.Eventually(t, fmt.Sprintf("a watch of %s has %d events", p.view.GVR(), must), func() bool {
				have, err := s.read()
				if err != nil {
					t.Fatalf("a watch has ended: %v", err)
				}
				shown[s] = have
				return len(have) >= must
			})
		}
	}
	r.catchUp(t) // who writes meanwhile is kube-apiserver itself
	for _, p := range r.pairs {
		must := r.expected[p.view.Home().GR()]
		theirs, ours := shown[p.upstream], shown[p.ours]
		for name, have := range map[string][]seen{"kube-apiserver": theirs, "gapless": ours} {
			if diff := cmp.Diff(must[:min(len(must), len(have))], bare(have), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("watch of %s: -etcd +%s:\n%s", p.view.GVR(), name, diff)
			}
		}
		for i := range min(len(theirs), len(ours)) {
			if p.view.Kind == "Service" { // in a watch kube-apiserver shows what it hides otherwise
				withoutDifferences(theirs[i].Object, p.view.Kind)
			}
			if diff := cmp.Diff(theirs[i], ours[i]); diff != "" {
				t.Errorf("watch of %s, event %d: -kube-apiserver +gapless:\n%s", p.view.GVR(), i, diff)
			}
		}
	}
	t.Logf("%d events in %d watches at each server", events, len(r.pairs))
}

// stopUpstream moves the watches of kube-apiserver to gapless, and stops kube-apiserver.
func (r *run) stopUpstream(t *testing.T) {
	t.Helper()
	for _, p := range r.pairs {
		p.upstream.halt()
		p.upstream.open(t, r.ours, p.upstream.last(r.from()))
	}
	r.cluster.Stop()
	r.alone = r.ours
}

// restartUpstream starts kube-apiserver again, and moves its watches back. It does not know what was before its
// start: each watch begins where it has everything.
func (r *run) restartUpstream(t *testing.T) {
	t.Helper()
	r.cluster.Start()
	r.alone = nil
	for _, p := range r.pairs { // each cache has begun
		if list, err := r.upstream.get(t.Context(), pathOf(p.view, "", "")); err != nil || list == nil {
			t.Fatalf("list %s after the start of kube-apiserver: %v, %v", p.view.Plural, list, err)
		}
	}
	r.check(t)
	for _, p := range r.pairs {
		p.upstream.halt()
		at := r.read
		// It may have had more since.
		if last, err := strconv.ParseInt(p.upstream.last("0"), 10, 64); err == nil && last > at {
			at = last
		}
		p.upstream.open(t, r.upstream, strconv.FormatInt(at, 10))
	}
}

// stopGapless stops gapless. Who watches there waits.
func (r *run) stopGapless(t *testing.T) {
	t.Helper()
	for _, p := range r.pairs {
		p.ours.halt()
	}
	r.gapless.stop(t)
	r.alone = r.upstream
}

// restartGapless starts gapless again. Each watch goes on after its last event, however old that is.
func (r *run) restartGapless(t *testing.T) {
	t.Helper()
	r.startGapless(t)
	r.alone = nil
	for _, p := range r.pairs {
		p.ours.open(t, r.ours, p.ours.last(r.from()))
	}
}

// bare are events without objects.
func bare(events []seen) []seen {
	all := make([]seen, 0, len(events))
	for _, e := range events {
		all = append(all, seen{Type: e.Type, Version: e.Version})
	}
	return all
}
