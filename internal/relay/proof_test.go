package relay_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// elsewhere changes something that is not mirrored, and returns the resourceVersion.
func elsewhere(t testing.TB, c *kubernetes.Clientset, i int) string {
	t.Helper()
	o, err := c.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("other-", i)}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create service accounts: %v", err)
	}
	return o.ResourceVersion
}

// asked returns how often the relay asked upstream for readers of the most recent state.
func asked(t testing.TB, s *tested, kind string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.relay.Collector())
	all, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather the metrics: %v", err)
	}
	for _, family := range all {
		if family.GetName() != "gapless_relay_upstream_progress_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "request" && l.GetValue() == kind {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

func TestAResourceVersionOfAnotherResourceIsServedForOneThatDoesNotChange(t *testing.T) {
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())
	want, _ := list(t, relayed, metav1.ListOptions{})
	compared := asked(t, s, "compare")
	for i := range 2 { // the first one may come with the beginning of the mirror's watch
		rv := elsewhere(t, direct, i)
		began := time.Now()
		if got, _ := list(t, relayed, metav1.ListOptions{ResourceVersion: rv}); got["a"] != want["a"] {
			t.Errorf("the list is %v, want %v", got, want)
		}
		t.Logf("after %v", time.Since(began))
		w := follow(t, relayed, rv)
		o := put(t, direct, "a", fmt.Sprint(2+i))
		if got := events(t, w, 1)[0]; got != fmt.Sprintf("MODIFIED a %s %d", o.ResourceVersion, 2+i) {
			t.Errorf("the watch begins with %q", got)
		}
		want["a"] = fmt.Sprint(o.ResourceVersion, " ", 2+i)
	}
	if n := asked(t, s, "compare") - compared; n > 0 {
		t.Errorf("upstream's objects were compared %g times, want 0: a bookmark says it", n)
	}
}

// While one resource does not change and others do, readers of its most recent state share what
// upstream is asked, and see each change of it at once.
func TestConsistentListsOfAResourceThatDoesNotChangeShareProofs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	upstream, direct := open(t)
	for i := range 20 {
		put(t, direct, fmt.Sprint("m", i), "1")
	}
	s := openRelay(t, upstream.RESTConfig(), "", nil)
	relayed := clientset(t, s.config())
	list(t, relayed, metav1.ListOptions{})
	began := time.Now()
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 5 {
				if _, err := relayed.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
					t.Errorf("list config maps: %v", err)
				}
			}
		})
	}
	for i := range 10 {
		elsewhere(t, direct, i)
		o := put(t, direct, "m3", fmt.Sprint(i))
		elsewhere(t, direct, 100+i)
		if got, _ := list(t, relayed, metav1.ListOptions{}); got["m3"] != fmt.Sprint(o.ResourceVersion, " ", i) {
			t.Fatalf("the list after write %d has %q", i, got["m3"])
		}
	}
	readers.Wait()
	took := time.Since(began)
	for _, kind := range []string{"progress", "compare", "watch"} {
		n := asked(t, s, kind)
		t.Logf("%s: %g in %v", kind, n, took)
		if bound := 20*took.Seconds() + 2; strings.HasPrefix(kind, "pro") && n > bound {
			t.Errorf("%g progress requests in %v, want at most %g", n, took, bound)
		}
	}
}

// A list that is passed on makes the relay look whether the mirror is as new, so that lists are
// served again soon when nothing changes any more.
func TestListsAreServedAgainAfterOnesThatWerePassedOn(t *testing.T) {
	for _, objects := range []int{3, 150} { // as many are compared, and a bookmark says it
		t.Run(fmt.Sprint(objects), func(t *testing.T) {
			upstream, direct := open(t)
			for i := range objects {
				put(t, direct, fmt.Sprint("m", i), "1")
			}
			s := openRelay(t, upstream.RESTConfig(), "", nil)
			relayed := clientset(t, s.config())
			read := func() {
				t.Helper()
				if _, err := relayed.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{Limit: 3}); err != nil {
					t.Fatalf("list config maps: %v", err)
				}
			}
			for i := range 3 {
				elsewhere(t, direct, i)
				read()
			}
			if passed := s.passed.Load(); (passed > 0) != (objects > 100) {
				t.Fatalf("%d lists were passed on, of a collection that takes as much to compare only if it is small", passed)
			}
			eventually(t, func() string {
				before := s.passed.Load()
				read()
				if s.passed.Load() != before {
					return "lists are still passed on"
				}
				return ""
			})
		})
	}
}
