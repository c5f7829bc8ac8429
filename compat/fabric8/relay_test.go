package fabric8

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestFabric8Of2019KeepsItsIdleWatchBehindARelay: two programs watch ConfigMaps in a namespace where
// nothing happens. Meanwhile the server's window of changes and etcd's history leave them behind.
func TestFabric8Of2019KeepsItsIdleWatchBehindARelay(t *testing.T) {
	classPath := build(t, "v4")
	s := harness.StartSides(t)
	web := s.Cluster.Admin.Client(t)
	create := func(name string) {
		t.Helper()
		harness.Create(t, web, s.Cluster.URL+configMaps, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
	}
	harness.Create(t, web, s.Cluster.URL+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	s.Relay.Mirror(t, s.Relayed.Client.Client(t), widgets, "widgets.v1.example.org")
	direct, relayed := watching(t, classPath, s.Direct), watching(t, classPath, s.Relayed)
	defer direct.Stop() // before their context ends
	defer relayed.Stop()
	create("before")
	for _, p := range []*program{direct, relayed} {
		harness.Eventually(t, "the watch brings the new object", func() bool {
			return p.Store("configmaps")["default/before"] != ""
		})
	}
	const window = 100 // apiserver storage/cacher/watch_cache.go defaultLowerBoundCapacity
	s.Elsewhere(t, 2*window)
	t.Logf("etcd is compacted at %s", s.Cluster.Compact())
	s.Cluster.Stop() // which forgets changes that are younger than 75 s, too
	s.Cluster.Start()
	s.Relayed.Proxy.Cut()
	harness.Eventually(t, "the direct watch is closed for good", func() bool {
		return len(direct.Output(`CLOSED configmaps 410 `)) > 0
	})
	create("after")
	for _, p := range []*program{direct, relayed} {
		harness.Eventually(t, "the object after it is seen", func() bool { return p.Store("configmaps")["default/after"] != "" })
	}
	for name, p := range map[string]*program{"direct": direct, "relayed": relayed} {
		t.Logf("%s: %s; closed: %q; kube-apiserver was asked %s", name, p.counter, p.Output("CLOSED"), s.Cluster.Reads(name))
	}
	t.Logf("the relay asked kube-apiserver for %s", s.Cluster.Reads("relay"))
	if closed := relayed.Output("CLOSED"); len(closed) > 0 || relayed.counter.Lists() != 1 {
		t.Errorf("the relayed watch was closed, %q, or the program listed %d times; want once", closed, relayed.counter.Lists())
	}
	if opened := relayed.Output(`REQUEST 101 GET ` + configMaps + `\?.*watch=true`); len(opened) != 2 {
		t.Errorf("%d WebSockets of the relayed program, want one before the cut and one after it", len(opened))
	}
}

// program is a running program of fabric8 4.2.2.
type program struct {
	*harness.Foreign

	counter *harness.Counter
}

// watching starts a program on one side, and waits until it watches.
func watching(t *testing.T, classPath string, side *harness.Side) *program {
	t.Helper()
	watches := harness.Watches(map[string]string{"configmaps": configMaps, "widgets": widgets})
	p := start(t, classPath, "Watching", append([]string{side.Proxy.URL()}, side.Client.WriteFiles(t)...), watches)
	harness.Eventually(t, "ConfigMaps are watched", func() bool {
		return len(p.Output(`REQUEST 101 GET `+configMaps+`\?.*watch=true`)) > 0
	})
	return &program{p, watches["configmaps"].Counter}
}

func TestFabric8WritesOnceBehindAnAPIServerThatSendsClientsAway(t *testing.T) {
	harness.Long(t)
	classPath := build(t, "v7")
	harness.WritesUnderGoAway(t, map[string]harness.Writing{
		"fabric8 7.8.0": harness.WritingProgram(java(classPath, "Writing")...),
	})
}
