package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a registry over a log in memory, with what tests say often.
type server struct {
	*registry.Registry
	t    testing.TB
	log  *revlog.Log
	live *kinds.Live
}

// openLog returns a log in memory that runs until the test ends.
func openLog(tb testing.TB) *revlog.Log {
	tb.Helper()
	return openLogWith(tb, revlog.Options{Memory: true})
}

func openLogWith(tb testing.TB, o revlog.Options) *revlog.Log {
	tb.Helper()
	log, err := revlog.Open(tb.Context(), o)
	if err != nil {
		tb.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(tb.Context())) }() // ends with Close
	tb.Cleanup(func() {
		if err := log.Close(); err != nil {
			tb.Errorf("close the log: %v", err)
		}
		if err := <-ended; err != nil {
			tb.Errorf("run the log: %v", err)
		}
	})
	return log
}

// serve runs a registry over a new log until the test ends.
func serve(tb testing.TB) *server {
	tb.Helper()
	s, _ := serveOn(tb, openLog(tb), nil)
	return s
}

// serveOn runs a registry over a log; wrap, if any, stands between them. stop
// ends it before the test does.
func serveOn(tb testing.TB, log *revlog.Log, wrap func(store.Store) store.Store) (s *server, stop func()) {
	tb.Helper()
	cfg := registry.Config{Store: log}
	if wrap != nil {
		cfg.Store = wrap(log)
	}
	return serveWith(tb, log, cfg)
}

// serveWith is serveOn with a configuration, which it completes.
func serveWith(tb testing.TB, log *revlog.Log, cfg registry.Config) (s *server, stop func()) {
	tb.Helper()
	s = &server{t: tb, log: log, live: kinds.NewLive(builtin.Catalog())}
	cfg.Live, cfg.CacheEntries = s.live, 64
	s.Registry = registry.New(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("run: %v", err)
		}
	}
	tb.Cleanup(stop)
	if err := s.WaitReady(tb.Context()); err != nil {
		tb.Fatalf("wait until ready: %v", err)
	}
	return s, stop
}

// at is the target of "configmaps", "apps/v1/deployments" or
// "t.example.com/v1/foos", then namespace, name and subresource.
func (s *server) at(resource string, place ...string) kinds.Target {
	s.t.Helper()
	gvr := kinds.GroupVersionResource{Version: "v1", Resource: resource}
	if parts := strings.Split(resource, "/"); len(parts) == 3 {
		gvr = kinds.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	}
	r, found := s.live.Load().Lookup(gvr)
	if !found {
		s.t.Fatalf("no resource %v", gvr)
	}
	place = append(place, "", "", "")
	return kinds.Target{Resource: r, Namespace: place[0], Name: place[1], Subresource: place[2]}
}

func (s *server) create(t kinds.Target, body string) *wire.Object {
	s.t.Helper()
	out, err := s.Create(s.t.Context(), t, []byte(body), metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("create %s: %v", body, err)
	}
	if !out.Created {
		s.t.Errorf("create %s: not marked as created", body)
	}
	return out.Object
}

func (s *server) update(t kinds.Target, body string) *wire.Object {
	s.t.Helper()
	out, err := s.Update(s.t.Context(), t, []byte(body), metav1.UpdateOptions{})
	if err != nil {
		s.t.Fatalf("update %s: %v", body, err)
	}
	return out.Object
}

func (s *server) merge(t kinds.Target, patch string) *wire.Object {
	s.t.Helper()
	out, err := s.Patch(s.t.Context(), t, mergePatch(patch), metav1.PatchOptions{})
	if err != nil {
		s.t.Fatalf("patch %s: %v", patch, err)
	}
	return out.Object
}

func mergePatch(body string) wire.Patch {
	return wire.Patch{Type: types.MergePatchType, Body: []byte(body)}
}

func (s *server) delete(t kinds.Target) wire.Written {
	s.t.Helper()
	out, err := s.Delete(s.t.Context(), t, metav1.DeleteOptions{})
	if err != nil {
		s.t.Fatalf("delete %s: %v", t.Name, err)
	}
	return out
}

func (s *server) get(t kinds.Target) *wire.Object {
	s.t.Helper()
	o, err := s.Get(s.t.Context(), t, "")
	if err != nil {
		s.t.Fatalf("get %s: %v", t.Name, err)
	}
	return o
}

// options makes list options of what a test wants to set.
func options(set func(o *wire.ListOptions)) wire.ListOptions {
	o := wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything()}
	if set != nil {
		set(&o)
	}
	if o.ResourceVersion != "" {
		rv, err := kube.ParseResourceVersion(o.ResourceVersion)
		if err != nil {
			panic(err)
		}
		o.RV = rv
	}
	return o
}

func (s *server) list(t kinds.Target, set func(o *wire.ListOptions)) *wire.List {
	s.t.Helper()
	list, err := s.List(s.t.Context(), t, options(set))
	if err != nil {
		s.t.Fatalf("list: %v", err)
	}
	return list
}

// names are the keys of a list, in its order.
func names(list *wire.List) []string {
	keys := []string{}
	for _, o := range items(list) {
		keys = append(keys, o.Key().String())
	}
	return keys
}

// items are the objects of a list that must be whole.
func items(list *wire.List) []*wire.Object {
	var objects []*wire.Object
	for o, err := range list.Items {
		if err != nil {
			panic(err)
		}
		objects = append(objects, o)
	}
	return objects
}

func (s *server) watch(t kinds.Target, set func(o *wire.ListOptions)) *watcher {
	s.t.Helper()
	w, err := s.Watch(s.t.Context(), t, options(set))
	if err != nil {
		s.t.Fatalf("watch: %v", err)
	}
	s.t.Cleanup(w.Close)
	return &watcher{Watch: w, t: s.t}
}

// watcher takes a watch's events one by one.
type watcher struct {
	wire.Watch
	t       testing.TB
	waiting []wire.WatchEvent
}

func (w *watcher) next() wire.WatchEvent {
	w.t.Helper()
	for len(w.waiting) == 0 {
		events, err := w.Next(w.t.Context())
		if err != nil {
			w.t.Fatalf("next: %v", err)
		}
		w.waiting = append([]wire.WatchEvent(nil), events...)
	}
	e := w.waiting[0]
	w.waiting = w.waiting[1:]
	return e
}

// take returns the next n events as "ADDED default/a".
func (w *watcher) take(n int) []string {
	w.t.Helper()
	var lines []string
	for range n {
		e := w.next()
		line := e.Type.String()
		if e.Type == kube.InitialEventsEnd {
			line = "END"
		}
		if e.Object != nil {
			line += " " + e.Object.Key().String()
		}
		lines = append(lines, line)
	}
	return lines
}

// status is the Status of err as text.
func status(err error) string {
	s := wire.StatusOf(err)
	return fmt.Sprintf("%d %s %s", s.Code, s.Reason, s.Message)
}

// field reads one value of an object by its path.
func field(tb testing.TB, o *wire.Object, path ...string) any {
	tb.Helper()
	var tree any
	if err := json.Unmarshal(o.JSON(), &tree); err != nil {
		tb.Fatalf("decode %s: %v", o.JSON(), err)
	}
	for _, name := range path {
		m, is := tree.(map[string]any)
		if !is {
			return nil
		}
		tree = m[name]
	}
	return tree
}

func configMap(name string) string {
	return `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `"},"data":{"a":"1"}}`
}

// definition is the CustomResourceDefinition of foos.t.example.com.
func definition(extra string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"foos.t.example.com"` +
		extra + `},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},"versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n","labelSelectorPath":".status.sel"}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"},"n":{"type":"integer"}}},
"status":{"type":"object","properties":{"n":{"type":"integer"},"sel":{"type":"string"}}}}}}}]}}`
}

func foo(name, spec string) string {
	return `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

const (
	crds = "apiextensions.k8s.io/v1/customresourcedefinitions"
	foos = "t.example.com/v1/foos"
)

// expired reports whether err is a 410, and which.
func expired(err error) *kube.ExpiredError {
	e, _ := errors.AsType[*kube.ExpiredError](err)
	return e
}
