package replicas_test

import (
	"fmt"
	"log/slog"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// member starts an etcd that ends with the test, and returns its URL.
func member(t testing.TB) string {
	t.Helper()
	return etcd.StartFor(t, etcd.Options{NoSync: true}).URL()
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}
}

func TestWhatOneReplicaWritesTheOthersServe(t *testing.T) {
	url := member(t)
	a := start(t, url, t.TempDir(), nil)
	b := start(t, url, t.TempDir(), nil)
	atA, atB := a.client.CoreV1().ConfigMaps("default"), b.client.CoreV1().ConfigMaps("default")

	w, err := atB.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch at B: %v", err)
	}
	defer w.Stop()
	made, err := atA.Create(t.Context(), configMap("a", "1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create at A: %v", err)
	}
	if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).ResourceVersion != made.ResourceVersion {
		t.Errorf("the watch at B has %s of %v, want the creation at %s", e.Type, e.Object, made.ResourceVersion)
	}
	got, err := atB.Get(t.Context(), "a", metav1.GetOptions{}) // without a resourceVersion: it must be there
	if err != nil || got.ResourceVersion != made.ResourceVersion || got.UID != made.UID {
		t.Fatalf("read at B: %v, %v; want what A has answered: %v", got, err, made)
	}

	got.Data["k"] = "2"
	changed, err := atB.Update(t.Context(), got, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update at B: %v", err)
	}
	made.Data["k"] = "3" // from the version before
	if _, err := atA.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update at A what B has changed: %v, want a conflict", err)
	}
	list, err := atA.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("list at A: %v, %v, want one object", list, err)
	}
	if item := list.Items[0]; item.ResourceVersion != changed.ResourceVersion || item.Data["k"] != "2" {
		t.Errorf("the list at A has %v, want what B has written: %v", item, changed)
	}
}

// TestAClientMovesBetweenReplicas: a resourceVersion of one replica is one of the others, also when they
// have not reached it yet.
func TestAClientMovesBetweenReplicas(t *testing.T) {
	url := member(t)
	a := start(t, url, t.TempDir(), nil)
	b := start(t, url, t.TempDir(), nil)
	first, err := a.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("first", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create at A: %v", err)
	}
	const writes = 50
	for i := range writes {
		made, err := a.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(fmt.Sprintf("c%d", i), ""),
			metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create at A: %v", err)
		}
		list, err := b.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{
			ResourceVersion: made.ResourceVersion,
		})
		if err != nil {
			t.Fatalf("list at B, not older than what A has answered: %v", err)
		}
		if at, want := version(t, list.ResourceVersion), version(t, made.ResourceVersion); at < want {
			t.Fatalf("the list is as of %d, older than the %d that was asked for", at, want)
		}
	}
	w, err := b.client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: first.ResourceVersion,
	})
	if err != nil {
		t.Fatalf("watch at B from what A has answered: %v", err)
	}
	defer w.Stop()
	for i := range writes {
		if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != fmt.Sprintf("c%d", i) {
			t.Fatalf("event %d at B is %s of %v", i, e.Type, e.Object)
		}
	}
}

func version(t *testing.T, text string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("read a resourceVersion: %v", err)
	}
	return v
}

// TestAWatchResumesAtAReplicaThatWasAway: what others have written meanwhile is in its history, and what it
// served before is still there.
func TestAWatchResumesAtAReplicaThatWasAway(t *testing.T) {
	url, dir := member(t), t.TempDir()
	a := start(t, url, t.TempDir(), nil)
	b := start(t, url, dir, nil)
	first, err := b.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("first", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create at B: %v", err)
	}
	b.stop(t)
	for _, name := range []string{"x", "y"} {
		if _, err := a.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name, ""),
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("create at A while B is away: %v", err)
		}
	}
	b = start(t, url, dir, nil)
	w, err := b.client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: first.ResourceVersion,
	})
	if err != nil {
		t.Fatalf("watch at B from before its restart: %v", err)
	}
	defer w.Stop()
	for _, name := range []string{"x", "y"} {
		if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != name {
			t.Errorf("the watch has %s of %v, want the creation of %s", e.Type, e.Object, name)
		}
	}
}

// TestOneReplicaCollectsGarbageAndTheNextFollows: the namespace goes with its content, whichever replica leads.
func TestOneReplicaCollectsGarbageAndTheNextFollows(t *testing.T) {
	url := member(t)
	a := start(t, url, t.TempDir(), nil)
	b := start(t, url, t.TempDir(), nil)
	gone := func(name string) {
		t.Helper()
		namespaces := b.client.CoreV1().Namespaces()
		if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("create a namespace: %v", err)
		}
		if _, err := b.client.CoreV1().ConfigMaps(name).Create(t.Context(), configMap("a", ""),
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("create an object in it: %v", err)
		}
		if err := namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete the namespace: %v", err)
		}
		harness.Eventually(t, "the namespace is gone", func() bool {
			_, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	gone("with-two")
	a.stop(t) // it leads: it was first
	gone("with-one")
}
