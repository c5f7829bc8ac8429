package apiserver_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/wire"
)

// unserved are the first parts of the keys that kube-apiserver has in etcd by itself and gapless leaves alone.
var unserved = []string{"peerserverleases", "ranges"}

// filledIn are the kinds whose objects kube-apiserver stores without what it fills in when it reads them:
// its strategies change them after their defaults. The layout returns, and stores again, all of it.
var filledIn = map[string]string{
	"jobs.batch":             "labels, those of the template",
	"persistentvolumeclaims": "status.phase",
}

// shared is an etcd with what a kube-apiserver has written.
type shared struct {
	reference *reference
	client    *clientv3.Client
	live      *kinds.Live
	layout    *layout.Layout
}

// TestEtcdHasWhatTheLayoutSays creates an object of every kind through kube-apiserver. What is in its etcd then
// is read by the layout as kube-apiserver answers a GET. Encoded again it is the same bytes, and kube-apiserver reads
// an object that was changed and stored through the layout.
func TestEtcdHasWhatTheLayoutSays(t *testing.T) {
	r := startReference(t, newKey(t), switches(left, optional)) // of a pod only what is sent
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{r.etcd}})
	if err != nil {
		t.Fatalf("make a client of etcd: %v", err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("close the client of etcd: %v", err)
		}
	})
	live := kinds.NewLive(builtin.Catalog())
	s := &shared{reference: r, client: client, live: live, layout: layout.New("/registry", live)}
	created := s.create(t)
	known, others := map[string]int{}, map[string]bool{}
	for _, kv := range s.all(t) {
		key, is := s.layout.StoreKey(kv)
		if !is {
			first, _, _ := strings.Cut(strings.TrimPrefix(kv, "/registry/"), "/")
			others[first] = true
			continue
		}
		name, _, _ := strings.Cut(key, "/")
		known[name]++
		s.check(t, kv, key)
	}
	if diff := cmp.Diff(unserved, slices.Sorted(maps.Keys(others))); diff != "" {
		t.Errorf("other keys are not known (-want +got): %s", diff)
	}
	for _, key := range created {
		name, _, _ := strings.Cut(key, "/")
		if known[name] == 0 {
			t.Errorf("etcd has no object of %s", name)
		}
		s.relabel(t, key)
	}
	t.Logf("%d resources, %d objects were created", len(known), len(created))
}

// create creates an object of each kind, and of a custom resource, and returns the keys in the store.
func (s *shared) create(t *testing.T) []string {
	t.Helper()
	poll(t, "there is the namespace default", func() bool {
		code, _ := get(t, s.reference.target, "/api/v1/namespaces/default")
		return code == http.StatusOK
	})
	var keys []string
	add := func(r *kinds.Resource, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.reference.target.URL+urlOf(r, "default", ""),
			bytes.NewReader(body))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		code, answer, err := send(s.reference.target, req)
		switch {
		case err == nil && code == http.StatusConflict: // it is one that kube-apiserver has made itself
			answer = body
		case err != nil || code != http.StatusCreated:
			t.Errorf("create a %s: %d %s %v", r.Kind, code, answer, err)
			return
		}
		keys = append(keys, r.GR().String()+"/"+keyOf(t, r, answer).String())
	}
	for _, r := range builtin.Catalog().Stored() {
		add(r, inDefault(t, r, builtintest.Manifest(t, r)))
	}
	must(t, s.reference.target, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": {"name": "things.layout.example.com"},
		"spec": {"group": "layout.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
			"versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
				{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`)
	const definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.layout.example.com"
	var resources []*kinds.Resource
	poll(t, "the definition is established", func() bool {
		code, body := get(t, s.reference.target, definition)
		if code != http.StatusOK {
			return false
		}
		var err error
		if resources, err = custom.Resources(body); err != nil {
			t.Fatalf("read the definition: %v", err)
		}
		code, _ = get(t, s.reference.target, "/apis/layout.example.com/v1/things")
		return len(resources) > 0 && code == http.StatusOK
	})
	s.live.Store(s.live.Load().With(resources...))
	add(resources[0], []byte(`{"apiVersion": "layout.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "a": "<&>",
		"spec": {"b": 1.5, "a": [1, null, {}], "big": 9007199254740993}}`))
	return keys
}

// all are the keys in etcd.
func (s *shared) all(t *testing.T) []string {
	t.Helper()
	resp, err := s.client.Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatalf("read the keys in etcd: %v", err)
	}
	var keys []string
	for _, kv := range resp.Kvs {
		if strings.HasPrefix(string(kv.Key), "/registry/") {
			keys = append(keys, string(kv.Key))
		}
	}
	return keys
}

// resource returns the resource of a key in the store, and the name of its object.
func (s *shared) resource(t *testing.T, key string) (*kinds.Resource, wire.Key) {
	t.Helper()
	name, object, _ := strings.Cut(key, "/")
	plural, group, _ := strings.Cut(name, ".")
	r, is := s.live.Load().Storage(kinds.GroupResource{Group: group, Resource: plural})
	if !is {
		t.Fatalf("no resource is %s", name)
	}
	if !r.Namespaced {
		return r, wire.Key{Name: object}
	}
	namespace, object, _ := strings.Cut(object, "/")
	return r, wire.Key{Namespace: namespace, Name: object}
}

// read returns the value of a key, and what kube-apiserver answers a GET of the object with at that revision,
// without its resourceVersion.
func (s *shared) read(t *testing.T, etcdKey, key string) (value []byte, shown map[string]any) {
	t.Helper()
	r, name := s.resource(t, key)
	poll(t, "etcd and kube-apiserver have the same "+key, func() bool {
		resp, err := s.client.Get(t.Context(), etcdKey)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("read %s: %d, %v", etcdKey, len(resp.Kvs), err)
		}
		value = resp.Kvs[0].Value
		code, body := get(t, s.reference.target, urlOf(r, name.Namespace, name.Name))
		if code != http.StatusOK {
			t.Fatalf("get %s: %d %s", key, code, body)
		}
		shown = exact(t, body)
		metadata := shown["metadata"].(map[string]any)
		rv := metadata["resourceVersion"]
		delete(metadata, "resourceVersion")
		return rv == strconv.FormatInt(resp.Kvs[0].ModRevision, 10)
	})
	return value, shown
}

// check compares an object in etcd with that of a GET.
func (s *shared) check(t *testing.T, etcdKey, key string) {
	t.Helper()
	if back, err := s.layout.Key(key); back != etcdKey || err != nil {
		t.Errorf("the key of %s is %q, %v, want %q", key, back, err, etcdKey)
	}
	stored, shown := s.read(t, etcdKey, key)
	value, err := s.layout.Decode(key, stored)
	if err != nil {
		t.Errorf("decode: %v", err)
		return
	}
	if diff := cmp.Diff(shown, exact(t, value)); diff != "" {
		t.Errorf("%s is another object (-kube-apiserver +gapless): %s", key, diff)
	}
	again, err := s.layout.Encode(key, value, nil)
	if err != nil {
		t.Errorf("encode: %v", err)
		return
	}
	r, _ := s.resource(t, key)
	if equal := !r.Custom && !r.IsDefinition() && filledIn[r.GR().String()] == ""; equal && !bytes.Equal(again, stored) {
		t.Errorf("%s comes back as\n%q, it was\n%q", key, again, stored)
	}
	if back, err := s.layout.Decode(key, again); err != nil || !bytes.Equal(back, value) {
		t.Errorf("%s comes back as\n%s %v, it was\n%s", key, back, err, value)
	}
}

// relabel stores an object with another label, as gapless would, and reads it through kube-apiserver.
func (s *shared) relabel(t *testing.T, key string) {
	t.Helper()
	etcdKey, err := s.layout.Key(key)
	if err != nil {
		t.Fatalf("the key of %s: %v", key, err)
	}
	stored, _ := s.read(t, etcdKey, key)
	value, err := s.layout.Decode(key, stored)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	changed := exact(t, value)
	metadata := changed["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["written-by"], metadata["labels"] = "gapless", labels
	if value, err = wire.Canonical(changed); err != nil {
		t.Fatalf("encode %s: %v", key, err)
	}
	if stored, err = s.layout.Encode(key, value, nil); err != nil {
		t.Fatalf("encode: %v", err)
	}
	if _, err := s.client.Put(t.Context(), etcdKey, string(stored)); err != nil {
		t.Fatalf("write %s: %v", etcdKey, err)
	}
	if _, shown := s.read(t, etcdKey, key); !cmp.Equal(shown, changed) {
		t.Errorf("%s is another object (-gapless +kube-apiserver): %s", key, cmp.Diff(changed, shown))
	}
}

// poll returns when ok does. Only the end of the test ends it before: the machine may be busy for minutes.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-t.Context().Done():
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// urlOf is the path of an object, or of a collection.
func urlOf(r *kinds.Resource, namespace, name string) string {
	p := "/apis/" + r.APIVersion()
	if r.Group == "" {
		p = "/api/" + r.Version
	}
	if r.Namespaced {
		p += "/namespaces/" + namespace
	}
	if p += "/" + r.Plural; name != "" {
		p += "/" + name
	}
	return p
}

// keyOf is the key of an object that was created.
func keyOf(t *testing.T, r *kinds.Resource, body []byte) wire.Key {
	t.Helper()
	var o struct {
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatalf("read a %s: %v", r.Kind, err)
	}
	return wire.Key{Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// inDefault is a manifest in the namespace default.
func inDefault(t *testing.T, r *kinds.Resource, body []byte) []byte {
	t.Helper()
	o := exact(t, body)
	if r.Namespaced {
		o["metadata"].(map[string]any)["namespace"] = "default"
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("encode a %s: %v", r.Kind, err)
	}
	return text
}

// exact decodes an object, with numbers as they are written.
func exact(t *testing.T, text []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return o
}
