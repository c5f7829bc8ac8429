package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// configMaps is the collection that the demo writes and watches.
func configMaps() client.Collection {
	return client.Collection{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: metav1.NamespaceDefault,
	}
}

// state is name to resourceVersion.
type state map[string]string

func stateOf(inf *informer.Informer[*corev1.ConfigMap]) state {
	s := state{}
	for key, o := range inf.All() {
		s[key.Name] = o.ResourceVersion
	}
	return s
}

// listState lists the state from the server.
func listState(ctx context.Context, c *client.Client) (state, error) {
	s := state{}
	_, err := c.List(ctx, configMaps(), metav1.ListOptions{}, s.put)
	return s, err
}

func (s state) put(item []byte) error {
	meta, err := client.MetaOf(item)
	if err == nil {
		s[meta.Name] = meta.ResourceVersion
	}
	return err
}

// difference counts the objects in which two states differ.
func difference(a, b state) int {
	n := 0
	for name, rv := range a {
		if b[name] != rv {
			n++
		}
	}
	for name := range b {
		if _, there := a[name]; !there {
			n++
		}
	}
	return n
}

// demoNames is the most names that the writer uses.
const demoNames = 50

// demoWriter creates, changes and deletes config maps.
type demoWriter struct {
	client  *client.Client
	changes int           // that one write makes
	names   int           // that it uses in turn
	pace    time.Duration // from one change to the next, at least
	n       int
	exists  map[string]bool
	last    kube.ResourceVersion
	done    atomic.Int64 // changes since the last reset
}

// newDemoWriter returns a writer that makes so many changes at a time. It has at most
// half as many names, so that each write replaces an object: compaction only removes
// what was replaced, and without it no watch would get a 410.
func newDemoWriter(c *client.Client, changes int, pace time.Duration) *demoWriter {
	names := max(1, min(demoNames, changes/2))
	return &demoWriter{client: c, changes: changes, names: names, pace: pace, exists: map[string]bool{}}
}

func (w *demoWriter) reset()    { w.done.Store(0) }
func (w *demoWriter) made() int { return int(w.done.Load()) }

// write makes its changes. The last is never a deletion, because the response to a
// deletion has no resourceVersion.
func (w *demoWriter) write(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for i := range w.changes {
		select {
		case <-next.C:
			next.Reset(w.pace)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		w.n++
		name := fmt.Sprintf("demo-%02d", w.n%w.names)
		r := client.Request{Method: http.MethodPost, Path: configMaps().Path()}
		switch {
		case !w.exists[name]:
			r.Body = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"change":"%d"}}`,
				name, w.n)
		case w.n%7 == 0 && i < w.changes-1:
			r.Method, r.Path = http.MethodDelete, r.Path+"/"+name
		default:
			r.Method, r.Path, r.ContentType = http.MethodPatch, r.Path+"/"+name, "application/merge-patch+json"
			r.Body = fmt.Appendf(nil, `{"data":{"change":"%d"}}`, w.n)
		}
		if err := w.send(ctx, r); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		w.exists[name] = r.Method != http.MethodDelete
		w.done.Add(1)
	}
	return nil
}

func (w *demoWriter) send(ctx context.Context, r client.Request) error {
	resp, err := w.client.Do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read the response: %w", err)
	}
	if rv, err := kube.ParseResourceVersion(answer.Metadata.ResourceVersion); err == nil &&
		answer.Metadata.ResourceVersion != "" {
		w.last = rv
	}
	return nil
}

// naive is a simple watcher: it lists once and watches from there. When the watch
// ends, it watches from the last version that it has seen.
type naive struct {
	client *client.Client
	ended  chan error // of the watch that was opened last; read once

	// mu guards what is below.
	mu     sync.Mutex
	state  state
	rv     string
	events int
}

func (n *naive) list(ctx context.Context) error {
	s := state{}
	meta, err := n.client.List(ctx, configMaps(), metav1.ListOptions{}, s.put)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.rv = s, meta.ResourceVersion
	return err
}

// watch opens a watch from where it is, and reads it until it ends.
func (n *naive) watch(ctx context.Context) error {
	stream, err := n.client.Watch(ctx, configMaps(), metav1.ListOptions{ResourceVersion: n.at()})
	if err != nil {
		return err
	}
	n.ended = make(chan error, 1)
	go func() { n.ended <- errors.Join(n.read(stream), stream.Close()) }() // wait waits for it
	return nil
}

// read reads events until the watch ends, and returns why it ended.
func (n *naive) read(stream *client.Watch) error {
	for {
		f, err := stream.Next()
		if err != nil {
			return err
		}
		meta, err := f.Meta()
		if err != nil {
			return err
		}
		n.take(f.Type, meta)
	}
}

func (n *naive) take(t kube.EventType, meta client.Meta) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events++
	n.rv = meta.ResourceVersion
	n.state[meta.Name] = meta.ResourceVersion
	if t == kube.Deleted {
		delete(n.state, meta.Name)
	}
}

func (n *naive) at() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rv
}

// follow waits until it has seen a version. If the watch ends before, that is an error.
func (n *naive) follow(ctx context.Context, rv kube.ResourceVersion) error {
	return poll(ctx, func() (bool, error) {
		at, err := kube.ParseResourceVersion(n.at())
		if err == nil && at >= rv {
			return true, nil
		}
		select {
		case err := <-n.ended:
			n.ended = nil
			return false, err
		default:
			return false, nil
		}
	})
}

// wait waits until the watch has ended, and returns why. Without a watch it returns
// nil at once.
func (n *naive) wait() error {
	if n.ended == nil {
		return nil
	}
	err := <-n.ended
	n.ended = nil
	return err
}

func (n *naive) known() state {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.state)
}

func (n *naive) seen() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.events
}

func (n *naive) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = 0
}

// deliveries records the events that the informer's handler received.
type deliveries struct {
	mu sync.Mutex
	// mu guards all below.
	known  state
	events int
}

func (t *deliveries) handle(_ context.Context, e informer.Event[*corev1.ConfigMap]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = state{}
	}
	t.events++
	if e.Type == informer.Deleted {
		delete(t.known, e.Key.Name)
		return nil
	}
	t.known[e.Key.Name] = e.New.ResourceVersion
	return nil
}

func (t *deliveries) equals(s state) bool { return maps.Equal(t.state(), s) }

func (t *deliveries) state() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.known)
}

func (t *deliveries) seen() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.events
}

func (t *deliveries) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = 0
}

// errDisconnected is the error of connections while the network is cut.
var errDisconnected = errors.New("the network is disconnected")

// network dials connections, and can break all of them.
type network struct {
	mu sync.Mutex
	// mu guards all below.
	open map[net.Conn]struct{}
	down bool
}

func newNetwork() *network { return &network{open: map[net.Conn]struct{}{}} }

func (n *network) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, protocol, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errors.Join(errDisconnected, c.Close())
	}
	n.open[c] = struct{}{}
	return c, nil
}

// cut breaks every connection, and refuses new ones.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = true
	for c := range n.open {
		_ = c.Close() // only to break it
	}
	clear(n.open)
}

// restore allows connections again.
func (n *network) restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}
