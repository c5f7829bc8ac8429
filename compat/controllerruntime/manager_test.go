package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/clientgo"
)

// The informer has the very type that controller-runtime asks for.
var _ = cache.Options{NewInformer: clientgo.New}

func TestReconcilerSeesServerStateUnderFailures(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	s := harness.Start(t)
	p := harness.NewProxy(t, s)
	direct, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	web, err := rest.HTTPClientFor(direct)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	counter := &harness.Counter{Path: "/configmaps"}
	cfg := rest.CopyConfig(direct)
	cfg.Host = p.URL()
	cfg.Wrap(counter.Wrap)
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{
			// Every version, so that the witness can tell whether one was missed.
			NewInformer:       clientgo.With(clientgo.Handlers(informer.Every(1000, informer.Block))),
			DefaultNamespaces: map[string]cache.Config{"default": {}},
		},
	})
	if err != nil {
		t.Fatalf("make a manager: %v", err)
	}
	r := &reconciler{client: m.GetClient(), state: map[string]string{}}
	if err := ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(r); err != nil {
		t.Fatalf("complete for: %v", err)
	}
	inf := underTest(t, m, r)
	inf.Counter = counter
	harness.UnderFailures(t, s, p, web, inf)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == 0 || len(r.failures) > 0 {
		t.Errorf("%d reconciles, failures: %v", r.calls, r.failures)
	}
	t.Logf("%d reconciles of %d objects", r.calls, len(r.state))
}

// underTest lets a witness watch the informer of a manager. After each phase the
// cache, the witness and the reconciler must have come to the server's state.
func underTest(t *testing.T, m ctrl.Manager, r *reconciler) *harness.Informer {
	t.Helper()
	w := harness.NewWitness()
	i, err := m.GetCache().GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatalf("get informer: %v", err)
	}
	if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.Added(version(o)) },
		UpdateFunc: func(before, after any) {
			_, from := version(before)
			key, to := version(after)
			w.Updated(key, from, to)
		},
		DeleteFunc: func(o any) { w.Deleted(version(o)) },
	}); err != nil {
		t.Fatalf("add a handler: %v", err)
	}
	return &harness.Informer{
		Name: "controller-runtime 0.25", Witness: w,
		MaxLists: 2, // at the beginning, and once the history that it needs was compacted
		Path:     "/api/v1/namespaces/default/configmaps", Object: harness.ConfigMap,
		Run: func(ctx context.Context) {
			if err := m.Start(ctx); err != nil {
				t.Errorf("the manager: %v", err)
			}
		},
		Store: func() map[string]string {
			var list corev1.ConfigMapList
			err := m.GetCache().List(t.Context(), &list)
			if err != nil && !errors.As(err, new(*cache.ErrCacheNotStarted)) {
				t.Errorf("list from the cache: %v", err)
			}
			state := map[string]string{}
			for k := range list.Items {
				key, rv := version(&list.Items[k])
				state[key] = rv
			}
			if !r.has(state) {
				return nil // the reconciler is behind: it has to come to the same state
			}
			return state
		},
	}
}

// reconciler keeps a copy of what it reads from the manager's client, which is the cache.
type reconciler struct {
	client client.Client

	mu       sync.Mutex
	state    map[string]string
	calls    int
	failures []error
}

func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var o corev1.ConfigMap
	err := r.client.Get(ctx, req.NamespacedName, &o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	key := req.Namespace + "/" + req.Name
	switch {
	case apierrors.IsNotFound(err):
		delete(r.state, key)
	case err != nil:
		r.failures = append(r.failures, err)
	default:
		r.state[key] = o.ResourceVersion
	}
	return reconcile.Result{}, nil
}

// has reports whether the copy is a state.
func (r *reconciler) has(state map[string]string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Equal(r.state, state)
}

func version(o any) (key, rv string) {
	if tombstone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	m, ok := o.(client.Object)
	if !ok {
		return fmt.Sprintf("%T", o), "none"
	}
	return m.GetNamespace() + "/" + m.GetName(), m.GetResourceVersion()
}
