package gapless

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// TestOverridesAreTakenAsUpstreamTakesThem: their places count clusters by their servers in any order, the exact name
// goes before the whole group, and the last one counts.
func TestOverridesAreTakenAsUpstreamTakesThem(t *testing.T) {
	const a, b, c = "http://a:1", "http://b:1", "http://c:1"
	e := Etcd{Servers: []string{"http://m:1"}, Overrides: []EtcdOverride{
		{Group: "", Resource: "unknown", Servers: []string{c}},
		{Group: "", Resource: "events", Servers: []string{a, b}},
		{Group: "autoscaling", Resource: "*", Servers: []string{"http://d:1"}},
		{Group: "coordination.k8s.io", Resource: "leases", Servers: []string{b, a}},
		{Group: "autoscaling", Resource: "horizontalpodautoscalers", Servers: []string{b, a}},
		{Group: "events.k8s.io", Resource: "events", Servers: []string{c}},
		{Group: "apiextensions.k8s.io", Resource: "*", Servers: []string{c}},
		{Group: "", Resource: "secrets", Servers: []string{a, b}},
		{Group: "", Resource: "secrets", Servers: []string{"http://e:1"}},
	}}
	clusters, idle := e.apart(builtin.Catalog())
	var got, without []string
	for _, cluster := range clusters {
		text := cluster.place + ":"
		for _, gr := range cluster.resources {
			text += " " + gr.String()
		}
		got = append(got, text)
	}
	for _, o := range idle {
		without = append(without, o.String()+" "+o.cluster())
	}
	if diff := cmp.Diff([]string{
		"1: events horizontalpodautoscalers.autoscaling leases.coordination.k8s.io", "3: secrets",
	}, got); diff != "" {
		t.Errorf("the clusters: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"/unknown " + c, "autoscaling/* http://d:1", "events.k8s.io/events " + c, "apiextensions.k8s.io/* " + c,
		"/secrets " + a + ";" + b,
	}, without); diff != "" {
		t.Errorf("without effect: -want +got:\n%s", diff)
	}
}

// TestAPathLeadsToTheClusterOfItsResource: in every group that shows it.
func TestAPathLeadsToTheClusterOfItsResource(t *testing.T) {
	events := &etcdCluster{place: "0", resources: []kinds.GroupResource{{Resource: "events"}}}
	r := &replica{live: kinds.NewLive(builtin.Catalog()), main: &etcdCluster{}, apart: []*etcdCluster{events}}
	for path, want := range map[string]*etcdCluster{
		"/api/v1/events": events, "/api/v1/namespaces/default/events": events, "/api/v1/namespaces/default/events/e": events,
		"/api/v1/watch/namespaces/default/events": events, "/apis/events.k8s.io/v1/namespaces/default/events": events,
		"/apis/events.k8s.io/v1/events": events,
		"/api/v1/namespaces/events":     r.main, "/api/v1/namespaces/events/status": r.main, "/api/v1/namespaces": r.main,
		"/api/v1/pods/events": r.main, "/apis/apps/v1/events": r.main, "/": r.main, "": r.main, "/api": r.main, "/api/v1": r.main,
		"/apis/events.k8s.io/v1": r.main, "/readyz": r.main, "/api/v1/watch": r.main,
	} {
		if got := r.ofPath(path); got != want {
			t.Errorf("%q leads to the cluster %q, want %q", path, got.place, want.place)
		}
	}
}
