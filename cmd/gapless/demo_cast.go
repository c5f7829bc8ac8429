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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// configMaps is the collection that the demo is about.
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

// listState asks the server.
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

// demoNames is how many names the writer goes around.
const demoNames = 50

// demoWriter creates, changes and deletes config maps.
type demoWriter struct {
	client *client.Client
	n      int
	lives  map[string]bool
	last   kube.ResourceVersion
}

func newDemoWriter(c *client.Client) *demoWriter {
	return &demoWriter{client: c, lives: map[string]bool{}}
}

// write makes so many changes. The last is never a deletion, because the answer to
// one says no resourceVersion.
func (w *demoWriter) write(ctx context.Context, changes int) error {
	for i := range changes {
		w.n++
		name := fmt.Sprintf("demo-%02d", w.n*7%demoNames)
		r := client.Request{Method: http.MethodPost, Path: configMaps().Path()}
		switch {
		case !w.lives[name]:
			r.Body = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"change":"%d"}}`, name, w.n)
		case w.n%5 == 0 && i < changes-1:
			r.Method, r.Path = http.MethodDelete, r.Path+"/"+name
		default:
			r.Method, r.Path, r.ContentType = http.MethodPatch, r.Path+"/"+name, "application/merge-patch+json"
			r.Body = fmt.Appendf(nil, `{"data":{"change":"%d"}}`, w.n)
		}
		if err := w.send(ctx, r); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		w.lives[name] = r.Method != http.MethodDelete
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
		return fmt.Errorf("read the answer: %w", err)
	}
	if rv, err := kube.ParseResourceVersion(answer.Metadata.ResourceVersion); err == nil && answer.Metadata.ResourceVersion != "" {
		w.last = rv
	}
	return nil
}

// naive is a watcher as one writes it on a first day: it lists once, watches from
// there, and when the watch ends it watches from the last version it has seen.
type naive struct {
	client *client.Client
	stream *client.Watch
	state  state
	rv     string
	events int
}

func (n *naive) list(ctx context.Context) error {
	n.state = state{}
	meta, err := n.client.List(ctx, configMaps(), metav1.ListOptions{}, n.state.put)
	n.rv = meta.ResourceVersion
	return err
}

func (n *naive) watch(ctx context.Context) error {
	var err error
	n.stream, err = n.client.Watch(ctx, configMaps(), metav1.ListOptions{ResourceVersion: n.rv})
	return err
}

// next takes one event.
func (n *naive) next() error {
	f, err := n.stream.Next()
	if err != nil {
		return errors.Join(err, n.stream.Close())
	}
	meta, err := f.Meta()
	if err != nil {
		return err
	}
	n.events++
	n.rv = meta.ResourceVersion
	n.state[meta.Name] = meta.ResourceVersion
	if f.Type == kube.Deleted {
		delete(n.state, meta.Name)
	}
	return nil
}

// follow reads until it has seen a version.
func (n *naive) follow(rv kube.ResourceVersion) error {
	for {
		if at, err := kube.ParseResourceVersion(n.rv); err == nil && at >= rv {
			return nil
		}
		if err := n.next(); err != nil {
			return err
		}
	}
}

// died reads until the watch ends, and returns of what.
func (n *naive) died() error {
	for {
		if err := n.next(); err != nil {
			return err
		}
	}
}

// take returns the number of events since the last call.
func (n *naive) take() int {
	defer func() { n.events = 0 }()
	return n.events
}

// told is what the informer's handler was told.
type told struct {
	mu sync.Mutex
	// mu guards all below.
	known  state
	events int
}

func (t *told) handle(_ context.Context, e informer.Event[*corev1.ConfigMap]) error {
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

func (t *told) equals(s state) bool { return maps.Equal(t.state(), s) }

func (t *told) state() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.known)
}

func (t *told) take() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.events = 0 }()
	return t.events
}

// errHungUp is what a dead line says.
var errHungUp = errors.New("the line is dead")

// telephone is a network that can be cut.
type telephone struct {
	mu sync.Mutex
	// mu guards all below.
	calls map[net.Conn]struct{}
	dead  bool
}

func newTelephone() *telephone { return &telephone{calls: map[net.Conn]struct{}{}} }

func (t *telephone) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return nil, errors.Join(errHungUp, c.Close())
	}
	t.calls[c] = struct{}{}
	return c, nil
}

// hangUp breaks every connection, and lets no other come about.
func (t *telephone) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = true
	for c := range t.calls {
		_ = c.Close() // it is to break
	}
	clear(t.calls)
}

// restore lets connections come about again.
func (t *telephone) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = false
}
