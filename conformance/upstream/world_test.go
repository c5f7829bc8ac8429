package upstream_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/gapless-io/gapless/conformance/upstream"
)

// world is what one suite runs against.
type world struct {
	*upstream.Storage
	prefixes *storagetesting.PrefixTransformer
}

// open runs a server until the test ends.
func open(t *testing.T, cfg upstream.Config) *world {
	t.Helper()
	server, err := upstream.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s, err := upstream.New(server)
	if err != nil {
		t.Fatalf("new storage: %v", err)
	}
	w := &world{Storage: s, prefixes: storagetesting.NewPrefixTransformer(nil, false)}
	w.Transform(w.prefixes)
	return w
}

// Watch tells upstream's priority and fairness, of which gapless has nothing, that
// the watch has begun.
func (w *world) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	out, err := w.Storage.Watch(ctx, key, opts)
	if err == nil {
		flowcontrol.WatchInitialized(ctx)
	}
	return out, err
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
// The prefix is empty: gapless reads what it stores, so that a value must be JSON.
func (w *world) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	changed := *w.prefixes
	old := w.Transform(modify(&changed))
	return func() { w.Transform(old) }
}

var (
	_ storagetesting.InterfaceWithPrefixTransformer = (*world)(nil)
	_ value.Transformer                             = (*storagetesting.PrefixTransformer)(nil)
)

// compact is a storagetesting.Compaction. A compaction of etcd moves its revision,
// because Kubernetes notes it in a key; upstream's tests count on that.
func (w *world) compact(ctx context.Context, t *testing.T, rv string) {
	t.Helper()
	upTo, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		t.Fatalf("read a number: %v", err)
	}
	if err := w.Server().Compact(ctx, upTo); err != nil {
		t.Fatalf("compact server: %v", err)
	}
	w.increaseRV(ctx, t)
}

// increaseRV is a storagetesting.IncreaseRVFunc: a write to another resource.
func (w *world) increaseRV(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	revision, err := w.Server().WriteOther(ctx)
	if err != nil {
		t.Fatalf("write other: %v", err)
	}
	return revision
}

// touch creates a pod and returns a storagetesting.IncreaseRVFunc that writes to it.
func (w *world) touch(ctx context.Context, t *testing.T) storagetesting.IncreaseRVFunc {
	t.Helper()
	const key = "/pods/touched/pod"
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "touched", Name: "pod"}}
	if err := w.Create(ctx, key, pod, nil, 0); err != nil {
		t.Fatalf("create: %v", err)
	}
	return func(ctx context.Context, t *testing.T) int64 {
		t.Helper()
		out := &example.Pod{}
		err := w.GuaranteedUpdate(ctx, key, out, false, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
			pod, _ := o.(*example.Pod)
			pod.Generation++
			return pod, nil
		}), nil)
		if err != nil {
			t.Fatalf("guaranteed update: %v", err)
		}
		revision, err := strconv.ParseInt(out.ResourceVersion, 10, 64)
		if err != nil {
			t.Fatalf("read a number: %v", err)
		}
		return revision
	}
}

// checkStored is a storagetesting.KeyValidation: what is stored is the whole
// object, without resourceVersion and selfLink.
func (w *world) checkStored(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	stored, err := w.Server().Stored(ctx, key)
	if err != nil {
		t.Fatalf("stored server: %v", err)
	}
	var object struct {
		Kind     string
		Metadata struct{ Name, ResourceVersion, SelfLink string }
	}
	if err := json.Unmarshal(stored, &object); err != nil {
		t.Fatalf("%s: %v", stored, err)
	}
	if object.Kind != "Pod" || object.Metadata.Name == "" || object.Metadata.ResourceVersion != "" ||
		object.Metadata.SelfLink != "" {
		t.Errorf("stored %s", stored)
	}
}

// limitedAtZero serves a LIST at resourceVersion 0 with a limit as one without a
// resourceVersion: gapless ignores the limit at 0 as kube-apiserver does, whose
// cache stands before the etcd of which the test thinks.
type limitedAtZero struct{ storage.Interface }

func (s limitedAtZero) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	if opts.ResourceVersion == "0" && opts.Predicate.Limit > 0 {
		opts.ResourceVersion = ""
	}
	return s.Interface.GetList(ctx, key, opts, out)
}
