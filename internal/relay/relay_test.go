package relay_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless/internal/relay"
)

const namespace = "default"

func put(t testing.TB, c *kubernetes.Clientset, name, value string) *corev1.ConfigMap {
	t.Helper()
	maps := c.CoreV1().ConfigMaps(namespace)
	o, err := maps.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		o, err = maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}},
			metav1.CreateOptions{})
	} else if err == nil {
		o.Data = map[string]string{"v": value}
		o, err = maps.Update(t.Context(), o, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return o
}

func remove(t testing.TB, c *kubernetes.Clientset, name string) {
	t.Helper()
	if err := c.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete config maps: %v", err)
	}
}

// list returns the objects of a list by name, with their resourceVersions and values, and the
// list's resourceVersion.
func list(t testing.TB, c *kubernetes.Clientset, o metav1.ListOptions) (map[string]string, string) {
	t.Helper()
	l, err := c.CoreV1().ConfigMaps(namespace).List(t.Context(), o)
	if err != nil {
		t.Fatalf("list %+v: %v", o, err)
	}
	found := map[string]string{}
	for _, o := range l.Items {
		found[o.Name] = o.ResourceVersion + " " + o.Data["v"]
	}
	return found, l.ResourceVersion
}

// events reads n events of a watch.
func events(t testing.TB, w watch.Interface, n int) []string {
	t.Helper()
	var got []string
	for len(got) < n {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				t.Fatalf("the watch ended after %q", got)
			}
			switch o := e.Object.(type) {
			case *corev1.ConfigMap:
				got = append(got, fmt.Sprintf("%s %s %s %s", e.Type, o.Name, o.ResourceVersion, o.Data["v"]))
			case *metav1.Status:
				got = append(got, fmt.Sprintf("%s %d %s", e.Type, o.Code, o.Message))
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no event after %q", got)
		}
	}
	return got
}

func follow(t testing.TB, c *kubernetes.Clientset, rv string) watch.Interface {
	t.Helper()
	w, err := c.CoreV1().ConfigMaps(namespace).Watch(context.WithoutCancel(t.Context()), metav1.ListOptions{ResourceVersion: rv})
	if err != nil {
		t.Fatalf("watch config maps: %v", err)
	}
	t.Cleanup(w.Stop)
	return w
}

func TestListsAndWatchesHaveUpstreamsResourceVersions(t *testing.T) {
	upstream, direct := open(t)
	first := put(t, direct, "a", "1")
	put(t, direct, "b", "1")
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())

	atFirst, rv := list(t, relayed, metav1.ListOptions{})
	want, _ := list(t, direct, metav1.ListOptions{})
	if diff := cmp.Diff(want, atFirst); diff != "" {
		t.Error("list (-upstream +relay):\n" + diff)
	}
	through, straight := follow(t, relayed, rv), follow(t, direct, rv)
	put(t, direct, "a", "2")
	remove(t, direct, "b")
	put(t, direct, "c", "1")
	last := put(t, direct, "a", "3")
	if diff := cmp.Diff(events(t, straight, 4), events(t, through, 4)); diff != "" {
		t.Error("events (-upstream +relay):\n" + diff)
	}

	// What was seen there can be asked for here, and the other way round.
	for _, o := range []metav1.ListOptions{
		{},
		{ResourceVersion: last.ResourceVersion},
		{ResourceVersion: last.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
		{ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
	} {
		want, _ := list(t, direct, o)
		got, gotRV := list(t, relayed, o)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list %+v (-upstream +relay):\n%s", o, diff)
		}
		again := o
		again.ResourceVersion, again.ResourceVersionMatch = gotRV, metav1.ResourceVersionMatchExact
		if diff := cmp.Diff(got, func() map[string]string { m, _ := list(t, direct, again); return m }()); diff != "" {
			t.Errorf("upstream's state at the resourceVersion of the relay's list (-relay +upstream):\n%s", diff)
		}
	}
	resumed := follow(t, relayed, rv)
	if diff := cmp.Diff(events(t, follow(t, direct, rv), 4), events(t, resumed, 4)); diff != "" {
		t.Error("events from before (-upstream +relay):\n" + diff)
	}
	// The mirror began after this one: upstream has the changes.
	before := s.passed.Load()
	resumed = follow(t, relayed, first.ResourceVersion)
	if diff := cmp.Diff(events(t, follow(t, direct, first.ResourceVersion), 5), events(t, resumed, 5)); diff != "" {
		t.Error("events from before the mirror (-upstream +relay):\n" + diff)
	}
	if s.passed.Load() != before+1 {
		t.Error("the watch from before the mirror was not passed on")
	}
}

func TestPagesOfAListAreOfOneState(t *testing.T) {
	upstream, direct := open(t)
	for i := range 7 {
		put(t, direct, fmt.Sprint("m", i), "1")
	}
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())
	names := map[string]string{}
	o, rv := metav1.ListOptions{Limit: 3}, ""
	for page := 0; ; page++ {
		l, err := relayed.CoreV1().ConfigMaps(namespace).List(t.Context(), o)
		if err != nil {
			t.Fatalf("list config maps: %v", err)
		}
		if rv != "" && l.ResourceVersion != rv {
			t.Errorf("page %d has the resourceVersion %s, the first one %s", page, l.ResourceVersion, rv)
		}
		rv = l.ResourceVersion
		for _, o := range l.Items {
			names[o.Name] = o.Data["v"]
		}
		if o.Continue = l.Continue; o.Continue == "" {
			break
		}
		put(t, direct, "m6", fmt.Sprint("later ", page))
	}
	if len(names) != 8 && names["m6"] != "1" || names["m6"] != "1" {
		t.Errorf("pages have %v, want the state of the first one", names)
	}
}

func TestWhoWroteReadsIt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	upstream, direct := open(t)
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())
	for i := range 50 {
		o := put(t, direct, "a", fmt.Sprint(i))
		if got, _ := list(t, relayed, metav1.ListOptions{}); got["a"] != o.ResourceVersion+" "+fmt.Sprint(i) {
			t.Fatalf("the list after write %d has %q", i, got["a"])
		}
	}
}

func TestAReaderSeesTheDifferenceAfterUpstreamExpired(t *testing.T) {
	upstream, direct := open(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, direct, name, "1")
	}
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())
	before, rv := list(t, relayed, metav1.ListOptions{})
	connected := follow(t, relayed, rv)

	put(t, direct, "a", "2")
	shown := events(t, connected, 1) // the relay's watch is open: else this were a part of the difference, or not
	upstream.Inject(t, "unavailable,name=away,verbs=list|watch,resources=configmaps,userAgents=gapless-relay*")
	upstream.Restart(t) // the watch ends, and cannot be opened again
	eventually(t, func() string {
		if len(upstream.Watches()) > 0 {
			for _, w := range upstream.Watches() {
				if w.Resource == "configmaps" {
					return "the relay still watches"
				}
			}
		}
		return ""
	})
	remove(t, direct, "b")
	inside := put(t, direct, "x", "1")
	remove(t, direct, "x")
	put(t, direct, "a", "3")
	put(t, direct, "d", "1")
	upstream.Compact(t)
	want, _ := list(t, direct, metav1.ListOptions{})
	upstream.Faults().Remove("away")
	got := maps.Clone(before)
	shown = append(shown, events(t, connected, 3)...)
	for _, e := range shown {
		var kind, name, version, value string
		if n, err := fmt.Sscan(e, &kind, &name, &version, &value); n < 4 {
			t.Fatal(e, err)
		}
		if got[name] = version + " " + value; kind == string(watch.Deleted) {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("what a connected reader has (-upstream +relay):\n" + diff)
	}
	// Who comes back sees the same, and who was inside gets 410.
	if got := events(t, follow(t, relayed, rv), 4); !slices.Equal(got, shown) {
		t.Errorf("who comes back sees %q, who was connected saw %q", got, shown)
	}
	if e := events(t, follow(t, relayed, inside.ResourceVersion), 1)[0]; e[:9] != "ERROR 410" {
		t.Errorf("a watch from inside the hole: %q, want 410", e)
	}
	if _, err := relayed.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{
		ResourceVersion: inside.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}); !apierrors.IsResourceExpired(err) {
		t.Errorf("an exact list inside the hole: %v, want 410", err)
	}
	if got, _ := list(t, relayed, metav1.ListOptions{
		ResourceVersion: rv, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	}); !maps.Equal(got, before) {
		t.Errorf("the state before the hole is %v, want %v", got, before)
	}
}

func TestARelayThatStartsAgainResumes(t *testing.T) {
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	dir := t.TempDir()
	s := openRelay(t, upstream.RESTConfig(), dir, nil)
	_, rv := list(t, clientset(t, s.config()), metav1.ListOptions{})
	put(t, direct, "a", "2")
	remove(t, direct, "a")
	want := events(t, follow(t, clientset(t, s.config()), rv), 2)
	s.stop()
	put(t, direct, "b", "1")
	s = openRelay(t, upstream.RESTConfig(), dir, nil)
	got := events(t, follow(t, clientset(t, s.config()), rv), 3)
	if diff := cmp.Diff(want, got[:2]); diff != "" {
		t.Error("events after a restart (-before +after):\n" + diff)
	}
	for _, status := range s.relay.Status() {
		t.Logf("%+v", status)
	}
}

func TestReadersGet410WhenUpstreamsHistoryWentBack(t *testing.T) {
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	upstream.Keep(t)
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())
	for i := range 20 {
		put(t, direct, "lost", fmt.Sprint(i))
	}
	_, rv := list(t, relayed, metav1.ListOptions{})
	connected := follow(t, relayed, rv)
	upstream.RestartWith(t, "older")
	put(t, direct, "new", "1")
	if e := events(t, connected, 1)[0]; e[:9] != "ERROR 410" {
		t.Errorf("a connected reader got %q, want 410", e)
	}
	if e := events(t, follow(t, relayed, rv), 1)[0]; e[:9] != "ERROR 410" {
		t.Errorf("a reader that comes back got %q, want 410", e)
	}
	want, _ := list(t, direct, metav1.ListOptions{})
	if got, _ := list(t, relayed, metav1.ListOptions{}); !maps.Equal(got, want) {
		t.Errorf("the list is %v, want %v", got, want)
	}
}

func TestAnIdleResourceIsReleasedAndComesBack(t *testing.T) {
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	s := openRelay(t, upstream.RESTConfig(), "", func(c *relay.Config) { c.Idle = time.Millisecond })
	relayed := clientset(t, s.config())
	_, rv := list(t, relayed, metav1.ListOptions{})
	put(t, direct, "a", "2")
	eventually(t, func() string {
		if n := len(s.relay.Status()); n > 0 {
			return fmt.Sprint(n, " resources are mirrored although nobody reads")
		}
		return ""
	})
	put(t, direct, "a", "3")
	got := events(t, follow(t, relayed, rv), 2)
	if len(got) != 2 {
		t.Errorf("events are %q", got)
	}
}
