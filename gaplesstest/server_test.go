package gaplesstest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/gaplesstest"
)

// client returns a client that leaves no connection behind.
func client(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	web, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	all, err := kubernetes.NewForConfigAndClient(c, web)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return all
}

func create(t *testing.T, c kubernetes.Interface, name string) *corev1.ConfigMap {
	t.Helper()
	made, err := c.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create config maps: %v", err)
	}
	return made
}

func names(t *testing.T, c kubernetes.Interface) (all []string) {
	t.Helper()
	list, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list config maps: %v", err)
	}
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	return all
}

func TestRestartAndCrashKeepWhatWasAnswered(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	c := client(t, s.RESTConfig())
	create(t, c, "a")
	s.Restart(t)
	create(t, c, "b")
	open, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch config maps: %v", err)
	}
	s.Crash(t)
	for e := range open.ResultChan() {
		if e.Type != watch.Added {
			t.Errorf("the watch ends with %v", e)
		}
	}
	create(t, c, "c")
	if got := fmt.Sprint(names(t, c)); got != "[a b c]" {
		t.Errorf("config maps after a restart and a crash: %s", got)
	}
}

// Nothing of the resource was updated or deleted: a controller that takes no notice of the 410
// must miss the second object here as in a cluster, also after a restart of the server.
func TestCompactExpiresEveryOlderWatch(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	c := client(t, s.RESTConfig())
	before := create(t, c, "a")
	create(t, c, "missed")
	s.Compact(t)
	for _, what := range []string{"compaction", "restart"} {
		if e := firstEvent(t, c, before.ResourceVersion); e.Type != watch.Error ||
			!apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
			t.Errorf("after the %s the watch begins with %v, want 410", what, e)
		}
		if what == "compaction" {
			s.Restart(t)
		}
	}
}

func TestCompactHistoryExpiresOnlyWatchesThatWouldMissSomething(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	c := client(t, s.RESTConfig())
	first := create(t, c, "a")
	create(t, c, "b")
	s.CompactHistory(t)
	if e := firstEvent(t, c, first.ResourceVersion); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).Name != "b" {
		t.Errorf("the watch begins with %v, want the second object", e)
	}
	first.Data = map[string]string{"a": "b"}
	if _, err := c.CoreV1().ConfigMaps("default").Update(t.Context(), first, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("update config maps: %v", err)
	}
	s.CompactHistory(t)
	if e := firstEvent(t, c, first.ResourceVersion); e.Type != watch.Error ||
		!apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("after an update the watch begins with %v, want 410", e)
	}
}

// firstEvent is the first event of a watch of the config maps since a resource version.
func firstEvent(t *testing.T, c kubernetes.Interface, rv string) watch.Event {
	t.Helper()
	open, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv})
	if err != nil {
		t.Fatalf("watch config maps: %v", err)
	}
	defer open.Stop()
	return <-open.ResultChan()
}

func TestUsersMayDoWhatRolesAllow(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: readers}]
`)
	c := client(t, s.User(t, "jane", "readers"))
	if _, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a reader lists: %v", err)
	}
	if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a reader creates: %v", err)
	}
}

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,` +
	` x-kubernetes-preserve-unknown-fields: true}}}]
`

func TestResetRemovesWhatTestsLeaveBehind(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	c := client(t, s.RESTConfig())
	before := names(t, c)
	for round := range 2 {
		s.Apply(t, definition, `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop, finalizers: [example.com/never]}
`)
		create(t, c, "a")
		if err := c.RbacV1().ClusterRoles().Delete(t.Context(), "view", metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete cluster roles: %v", err)
		}
		if err := c.CoreV1().Namespaces().Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete namespaces: %v", err) // it would wait for the finalizer
		}
		s.Reset(t)
		if got := names(t, c); fmt.Sprint(got) != fmt.Sprint(before) {
			t.Errorf("round %d: config maps %v, before %v", round, got, before)
		}
		if _, err := c.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("round %d: the namespace: %v", round, err)
		}
		if _, err := c.RbacV1().ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{}); err != nil {
			t.Errorf("round %d: the role: %v", round, err)
		}
		if _, err := c.Discovery().ServerResourcesForGroupVersion("example.com/v1"); !apierrors.IsNotFound(err) {
			t.Errorf("round %d: the definition's resources: %v", round, err)
		}
		if round == 0 {
			s.Restart(t)
		}
	}
}

func TestWatchesSayWhoIsWhere(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	cfg := s.User(t, "jane", "system:masters")
	cfg.UserAgent = "janes-program"
	c := client(t, cfg)
	open, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app!=x"})
	if err != nil {
		t.Fatalf("watch config maps: %v", err)
	}
	made := create(t, c, "a")
	<-open.ResultChan()
	all := s.Watches()
	if len(all) != 1 {
		t.Fatalf("%d watches, want one: %v", len(all), all)
	}
	w := all[0]
	if w.User != "jane" || w.UserAgent != "janes-program" || w.Resource != "configmaps" || w.Namespace != "default" ||
		w.LabelSelector != "app!=x" || w.Since.IsZero() {
		t.Errorf("the watch is %+v", w)
	}
	for w.Known.String() != made.ResourceVersion { // it is noted after the event was sent
		<-time.After(time.Millisecond)
		w = s.Watches()[0]
	}
	open.Stop()
	for range open.ResultChan() {
	}
	for len(s.Watches()) > 0 {
		<-time.After(time.Millisecond)
	}
}

// TestTimeIsVirtualInABubble runs a server and a client for an hour.
func TestTimeIsVirtualInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gaplesstest.New(t, gaplesstest.WithoutPort())
		c := client(t, s.RESTConfig())
		created := create(t, c, "a").CreationTimestamp
		timeout := int64(3600)
		open, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
			FieldSelector: "metadata.name=a", TimeoutSeconds: &timeout, AllowWatchBookmarks: true,
		})
		if err != nil {
			t.Fatalf("watch config maps: %v", err)
		}
		seen := map[watch.EventType]int{}
		for e := range open.ResultChan() {
			seen[e.Type]++
		}
		if passed := time.Since(created.Time); passed < time.Hour || passed > time.Hour+time.Minute {
			t.Errorf("the watch lasted %v", passed)
		}
		if seen[watch.Added] != 1 || seen[watch.Bookmark] < 60 {
			t.Errorf("the watch had %v, want the object and a bookmark each minute", seen)
		}
	})
}
