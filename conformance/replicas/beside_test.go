package replicas_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/custom"
)

var (
	seed   = flag.Uint64("seed", 27, "of the random writes beside kube-apiserver")
	writes = flag.Int("writes", 600, "how many random writes beside kube-apiserver, each of which is made twice")
)

const besideDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"things.beside.example.org"},"spec":{"group":"beside.example.org","scope":"Namespaced",
	"names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
	"versions":[VERSIONS]}}`

const besideVersion = `{"name":"NAME","served":true,"storage":STORAGE,"subresources":{"status":{},
	"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
	"schema":{"openAPIV3Schema":{"type":"object","properties":{
	"spec":{"type":"object","properties":{"replicas":{"type":"integer"},"size":{"type":"integer","default":3},
	"ratio":{"type":"number"},"name":{"type":"string"},"on":{"type":"boolean"},
	"parts":{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},
	"value":{"type":"integer"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"]},
	"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
	"status":{"type":"object","properties":{"replicas":{"type":"integer"},"phase":{"type":"string"}}}}}}}`

// things are manifests of the custom resource.
var things = []string{
	`{"apiVersion":"beside.example.org/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"replicas":2,"ratio":1.50,
	"name":"<&>","on":true,"parts":[{"name":"x","value":1},{"name":"y"}],"free":{"b":[1,{}],"a":9007199254740993}},
	"status":{"replicas":1,"phase":"new"}}`,
	`{"apiVersion":"beside.example.org/v2","kind":"Thing","metadata":{"name":"b","labels":{"k":"v"}},"spec":{"size":1,
	"parts":[{"name":"y","value":7}],"free":{"c":{"d":"e"}}},"status":{"phase":"old"}}`,
}

// run is one of random writes beside kube-apiserver.
type run struct {
	*both

	client *clientv3.Client
	live   *kinds.Live
	*witness

	known findings
	// alone is the only server that is written to and read from, while the other one is stopped.
	alone *end
}

func startRun(t *testing.T) *run {
	t.Helper()
	r := &run{both: startBoth(t, `{"identity":{}}`), live: kinds.NewLive(builtin.Catalog()), known: knownFindings(t)}
	var err error
	if r.client, err = clientv3.New(clientv3.Config{Endpoints: []string{r.cluster.EtcdURL()}}); err != nil {
		t.Fatalf("make a client of etcd: %v", err)
	}
	t.Cleanup(func() {
		if err := r.client.Close(); err != nil {
			t.Errorf("close the client of etcd: %v", err)
		}
	})
	r.define(t)
	for _, name := range []string{"mixed", "plain", "mixed-a"} {
		r.must(t, request{
			method: http.MethodPost, path: "/api/v1/namespaces", contentType: "application/json",
			body: []byte(`{"metadata":{"name":"` + name + `"}}`),
		})
	}
	for _, name := range []string{"mixed", "mixed-a"} { // in the order of their keys the second one is first
		r.must(t, request{
			method: http.MethodPost, path: "/api/v1/namespaces/" + name + "/configmaps", contentType: "application/json",
			body: []byte(`{"metadata":{"name":"always"}}`),
		})
	}
	r.witness = r.watchAll(t, r.client, r.live)
	return r
}

// must sends a request to kube-apiserver.
func (r *run) must(t *testing.T, req request) {
	t.Helper()
	if a, err := r.upstream.do(t.Context(), req); err != nil || a.code/100 != 2 {
		t.Fatalf("%s %s: %d %s, %v", req.method, req.path, a.code, a.text, err)
	}
}

// define creates the custom resource, and waits until both serve it.
func (r *run) define(t *testing.T) {
	t.Helper()
	version := func(name, storage string) string {
		return strings.NewReplacer("NAME", name, "STORAGE", storage).Replace(besideVersion)
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	text := strings.ReplaceAll(besideDefinition, "VERSIONS", version("v1", "true")+","+version("v2", "false"))
	r.must(t, request{method: http.MethodPost, path: path, contentType: "application/json", body: []byte(text)})
	harness.Eventually(t, "both serve the custom resource", func() bool {
		for _, e := range []*end{r.upstream, r.ours} {
			for _, v := range []string{"v1", "v2"} {
				if list, err := e.get(t.Context(), "/apis/beside.example.org/"+v+"/things"); list == nil || err != nil {
					return false
				}
			}
		}
		return true
	})
	a, err := r.upstream.do(t.Context(), request{method: http.MethodGet, path: path + "/things.beside.example.org"})
	if err != nil {
		t.Fatalf("read the definition: %v", err)
	}
	resources, err := custom.Resources(a.text)
	if err != nil {
		t.Fatalf("read the definition: %v", err)
	}
	r.live.Store(r.live.Load().With(resources...))
}

// worker makes writes to its own slots, one after the other.
type worker struct {
	*run
	generator

	slots []*slot
	kinds map[string]int // writes that were accepted, by what they are
}

// ends are the servers that are up.
func (r *run) ends() []*end {
	if r.alone != nil {
		return []*end{r.alone}
	}
	return []*end{r.upstream, r.ours}
}

// step makes a random write of a random slot at a random server, and the same write of the twin at kube-apiserver.
func (w *worker) step(t *testing.T) {
	t.Helper()
	s := w.slots[w.IntN(len(w.slots))]
	one := w.next(s)
	ends := w.ends()
	at := ends[w.IntN(len(ends))]
	mixed, err := at.do(t.Context(), one.request(s, false))
	plain, err2 := ends[0].do(t.Context(), one.request(s, true))
	if err := errors.Join(err, err2); err != nil {
		t.Errorf("%s of %s: %v", one.what, s.name, err)
		return
	}
	if mixed.code/100 == 2 {
		w.kinds[one.what+" at "+at.name]++
	} else {
		w.kinds["refused: "+fmt.Sprint(mixed.code)]++
	}
	if one.what == "deletecollection" {
		plain.warnings, mixed.warnings = nil, nil // upstream warns about pods: docs/differences.md
	}
	diff := differenceOf(mixed, plain)
	if diff != "" {
		req := one.request(s, false)
		diff = fmt.Sprintf("the answers differ (-kube-apiserver +gapless), %s %s %s:\n%s", req.method, req.path, req.body, diff)
	} else {
		diff = w.settled(t.Context(), s)
	}
	if diff != "" && w.known.excuses(one.view, mixed, plain) {
		w.kinds["a known difference of validation"]++
		if err := w.reset(t.Context(), s); err != nil {
			t.Errorf("delete what differs: %v", err)
		}
		return
	}
	if diff != "" {
		t.Errorf("%s of %s %s at %s: %s", one.what, one.view.Kind, s.name, at.name, diff)
		if err := w.reset(t.Context(), s); err != nil {
			t.Errorf("delete what differs: %v", err)
		}
	}
}

// differenceOf compares the answers about an object and about its twin.
func differenceOf(mixed, plain reply) string {
	got, err := normal(mixed.text)
	want, err2 := normal(plain.text)
	if err := errors.Join(err, err2); err != nil {
		return err.Error()
	}
	var warnings []string
	for _, text := range plain.warnings {
		warnings = append(warnings, fromTwin.Replace(text))
	}
	// Who writes what says which requests wait learns that it does not here.
	others := func(texts []string) []string {
		return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
			return strings.Contains(text, "whatever the flowcontrol objects say")
		})
	}
	return cmp.Diff(want, got) + cmp.Diff(plain.code, mixed.code) +
		cmp.Diff(others(warnings), others(mixed.warnings), cmpopts.EquateEmpty())
}

// settled compares an object and its twin. Controllers of both servers write the status of a FlowSchema after each write of it,
// also between two reads: it is compared when both have one, or after two seconds as it is.
func (w *worker) settled(ctx context.Context, s *slot) string {
	diff := w.compare(ctx, s)
	if s.views[0].Kind != "FlowSchema" {
		return diff
	}
	written := func(all map[string]map[string]any) bool {
		_, has, _ := unstructured.NestedSlice(all[s.views[0].APIVersion()], "status", "conditions")
		return has
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 40 {
		if diff == "" && (!s.has() || written(s.mixed) && written(s.plain)) {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx).Error()
		case <-tick.C:
		}
		diff = w.compare(ctx, s)
	}
	return diff
}

// compare reads an object and its twin at both servers and in etcd.
func (w *worker) compare(ctx context.Context, s *slot) string {
	for _, view := range s.views {
		path, version := pathOf(view, "mixed", s.name), view.APIVersion()
		for i, at := range w.ends() {
			mixed, err := at.get(ctx, path)
			plain, err2 := at.get(ctx, toTwin.Replace(path))
			if err := errors.Join(err, err2); err != nil {
				return err.Error()
			}
			if i == 0 {
				s.mixed[version], s.plain[version] = mixed, plain
			}
			if diff := cmp.Diff(s.mixed[version], mixed) + cmp.Diff(s.plain[version], plain); diff != "" {
				return fmt.Sprintf("GET %s: -kube-apiserver +gapless:\n%s", path, diff)
			}
		}
		mixed, plain := s.mixed[version], s.plain[version]
		if (mixed == nil) != (plain == nil) {
			return fmt.Sprintf("there is one of both only: %v, its twin %v", mixed, plain)
		}
		if mixed == nil {
			continue
		}
		got, err := normal([]byte(jsonOf(mixed)))
		want, err2 := normal([]byte(jsonOf(plain)))
		if err := errors.Join(err, err2); err != nil {
			return err.Error()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Sprintf("%s is not as its twin (-twin +it):\n%s", path, diff)
		}
	}
	return w.compareStored(ctx, s)
}

// compareStored compares what etcd has of an object and of its twin.
func (w *worker) compareStored(ctx context.Context, s *slot) string {
	etcdKey, err := w.layout.Key(s.key())
	if err != nil {
		return err.Error()
	}
	mixed, err := w.client.Get(ctx, etcdKey)
	if err != nil {
		return err.Error()
	}
	plain, err := w.client.Get(ctx, toTwin.Replace(etcdKey))
	if err != nil {
		return err.Error()
	}
	if has := s.has(); (len(mixed.Kvs) == 1) != has || (len(plain.Kvs) == 1) != has {
		return fmt.Sprintf("etcd has %d at %s and %d at the twin's key", len(mixed.Kvs), etcdKey, len(plain.Kvs))
	}
	if !s.has() {
		return ""
	}
	if ours, theirs := mixed.Kvs[0].Lease != 0, plain.Kvs[0].Lease != 0; ours != theirs {
		return fmt.Sprintf("%s has a lease: %t; its twin: %t", etcdKey, ours, theirs)
	}
	got, err := w.stored(ctx, etcdKey, mixed.Kvs[0].Value)
	if err != nil {
		return err.Error()
	}
	want, err := w.stored(ctx, toTwin.Replace(etcdKey), plain.Kvs[0].Value)
	if err != nil {
		return err.Error()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Sprintf("in etcd %s is not as its twin (-twin +it):\n%s", etcdKey, diff)
	}
	return ""
}

// stored decodes a value of etcd as kube-apiserver's storage codec does before defaults, and checks that it has
// nothing that upstream's types do not know.
func (w *worker) stored(_ context.Context, key string, value []byte) (map[string]any, error) {
	if !bytes.HasPrefix(value, []byte("k8s\x00")) {
		return normal(value)
	}
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	o, _, err := codec.Decode(value, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", key, err)
	}
	again, err := runtime.Encode(codec, o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", key, err)
	}
	if !bytes.Equal(value, again) {
		return nil, fmt.Errorf("%s is stored as\n%q, upstream encodes it as\n%q", key, value, again)
	}
	one, err := normal([]byte(jsonOf(o)))
	if claim, is := o.(*corev1.PersistentVolumeClaim); is && err == nil && claim.Status.Phase == "" {
		// Kube-apiserver fills it in when it reads: docs/differences.md.
		one["status"].(map[string]any)["phase"] = "Pending"
	}
	return one, err
}

// reset deletes an object and its twin in etcd, whatever protects them.
func (w *worker) reset(ctx context.Context, s *slot) error {
	key, err := w.layout.Key(s.key())
	if err != nil {
		return fmt.Errorf("find the key of %s: %w", s.name, err)
	}
	for _, key := range []string{key, toTwin.Replace(key)} {
		if _, err := w.client.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
	}
	clear(s.mixed)
	clear(s.plain)
	return nil
}

// lists compares the lists of all kinds at both servers: at the revision at which the first one has answered.
func (r *run) lists(t *testing.T) {
	t.Helper()
	for i, p := range r.pairs {
		path := pathOf(p.view, "", "")
		first, second := r.upstream, r.ours
		if i%2 == 1 {
			first, second = second, first
		}
		list, err := first.get(t.Context(), path)
		if err != nil || list == nil {
			t.Errorf("list %s: %v, %v", path, list, err)
			continue
		}
		at := list["metadata"].(map[string]any)["resourceVersion"].(string)
		same, err := second.get(t.Context(), path+"?resourceVersionMatch=Exact&resourceVersion="+url.QueryEscape(at))
		if err != nil || same == nil {
			t.Errorf("list %s at %s: %v, %v", path, at, same, err)
			continue
		}
		for _, of := range []map[string]any{list, same} {
			metadata := of["metadata"].(map[string]any)
			if metadata["continue"] == "" { // kube-apiserver writes it for custom resources: docs/differences.md
				delete(metadata, "continue")
			}
		}
		if diff := cmp.Diff(list, same); diff != "" {
			t.Errorf("list %s: -%s +%s:\n%s", path, first.name, second.name, diff)
		}
	}
}

// TestRandomWritesBesideKubeAPIServer writes objects of all kinds at a random one of both servers, and the same to
// twins of them at kube-apiserver alone. After each write both servers show the same, the object is as its twin, and
// etcd has the same of both. All watches of both servers have the events that etcd has, also after each of them
// was stopped.
func TestRandomWritesBesideKubeAPIServer(t *testing.T) {
	t.Logf("to repeat it: -seed %d -writes %d", *seed, *writes)
	r := startRun(t)
	const workers, rounds = 4, 5
	each := max(1, *writes/rounds/workers)
	all := make([]*worker, workers)
	for i := range all {
		all[i] = &worker{run: r, generator: generator{rand.New(rand.NewPCG(*seed, uint64(i)))}, kinds: map[string]int{}}
	}
	for _, s := range slotsOf(t, r.live.Load(), things...) {
		w := all[crc32.ChecksumIEEE([]byte(s.views[0].Home().GR().String()))%workers] // one for all of a resource
		w.slots = append(w.slots, s)
	}
	phase := func(what string) {
		began := time.Now()
		var wg sync.WaitGroup
		for _, w := range all {
			wg.Go(func() {
				for range each {
					w.step(t)
				}
			})
		}
		if r.alone == nil {
			r.lists(t) // while both are written to
		}
		wg.Wait()
		if r.alone == nil {
			r.lists(t)
		}
		r.check(t)
		t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
	}
	phase("both")
	phase("both again")
	r.stopUpstream(t)
	phase("kube-apiserver is stopped")
	r.restartUpstream(t)
	phase("kube-apiserver is back")
	r.stopGapless(t)
	phase("gapless is stopped")
	r.restartGapless(t)
	r.lists(t)
	r.check(t)
	total := map[string]int{}
	for _, w := range all {
		for what, n := range w.kinds {
			total[what] += n
		}
	}
	t.Logf("writes: %v", total)
}
