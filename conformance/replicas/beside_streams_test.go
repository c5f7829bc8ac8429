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

	must map[kinds.GroupResource][]seen // without objects
}

// watchAll opens the watches of all views at both servers, and etcd's.
func (b *both) watchAll(t *testing.T, client *clientv3.Client, live *kinds.Live) *witness {
	t.Helper()
	w := &witness{client: client, layout: layout.New("/registry", live), must: map[kinds.GroupResource][]seen{}}
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
	for resp := range w.watch {
		if err := resp.Err(); err != nil {
			t.Fatalf("watch etcd: %v", err)
		}
		for _, e := range resp.Events {
			if string(e.Kv.Key) == mark {
				if e.Kv.ModRevision == put.Header.Revision {
					return
				}
				continue
			}
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
			w.must[gr] = append(w.must[gr], seen{Type: of, Version: strconv.FormatInt(e.Kv.ModRevision, 10)})
		}
	}
	t.Fatal("etcd's watch has ended")
}

// check waits until the watches at both servers have what etcd has, and compares them. Nobody writes meanwhile.
func (w *witness) check(t *testing.T) {
	t.Helper()
	w.catchUp(t)
	events := 0
	for _, p := range w.pairs {
		must := w.must[p.view.Home().GR()]
		var theirs, ours []seen
		harness.Eventually(t, "both watches of "+p.view.GR().String()+" have "+strconv.Itoa(len(must))+" events", func() bool {
			var err, err2 error
			theirs, err = p.upstream.read()
			ours, err2 = p.ours.read()
			if err != nil || err2 != nil {
				t.Fatalf("watches have ended: %v, %v", err, err2)
			}
			return len(theirs) >= len(must) && len(ours) >= len(must)
		})
		events += len(must)
		if diff := cmp.Diff(must, bare(theirs)); diff != "" {
			t.Errorf("watch of %s: -etcd +kube-apiserver:\n%s", p.view.GVR(), diff)
		}
		if diff := cmp.Diff(must, bare(ours)); diff != "" {
			t.Errorf("watch of %s: -etcd +gapless:\n%s", p.view.GVR(), diff)
		}
		for i := range min(len(theirs), len(ours)) {
			if diff := cmp.Diff(theirs[i], ours[i]); diff != "" {
				t.Errorf("watch of %s, event %d: -kube-apiserver +gapless:\n%s", p.view.GVR(), i, diff)
			}
		}
	}
	t.Logf("both servers have shown the same %d events in %d watches", events, len(w.pairs))
}

// bare are events without objects.
func bare(events []seen) []seen {
	var all []seen
	for _, e := range events {
		all = append(all, seen{Type: e.Type, Version: e.Version})
	}
	return all
}
