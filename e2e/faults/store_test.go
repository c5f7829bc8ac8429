package faults_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/proxy"
)

func TestWriteThatFailsAtTheStoreIsDoneOrNot(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	for fail, again := range map[string]string{"before": "200", "after": "409"} {
		if err := s.faults.Add(fault.Rule{
			Match: fault.Match{Namespaces: []string{of.Namespace}}, Action: &fault.StoreWrite{Fail: fail},
		}); err != nil {
			t.Fatalf("add the rule: %v", err)
		}
		write := client.Request{Method: http.MethodPost, Path: of.Path(), Body: []byte(`{"metadata":{"name":"` + fail + `"}}`)}
		if got := outcome(do(t, c, write)); got != "500" {
			t.Errorf("%s: %s", fail, got)
		}
		if state := s.faults.Rules()[0]; state.Problem != "" {
			t.Errorf("%s: %s", fail, state.Problem)
		}
		s.faults.Clear()
		if got := outcome(do(t, c, write)); got != again {
			t.Errorf("%s, and written again: %s, want %s", fail, got, again)
		}
	}
}

func TestDeletionOfACollectionFailsHalfway(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	if err := s.faults.Add(fault.Rule{
		Match: fault.Match{Verbs: []string{"deletecollection"}}, Action: &fault.StoreWrite{Fail: "before", Writes: 1},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	if got := outcome(do(t, c, client.Request{Method: http.MethodDelete, Path: of.Path()})); got != "500" {
		t.Error(got)
	}
	if _, n, err := list(t, c, of, metav1.ListOptions{}); n != 1 || err != nil {
		t.Errorf("%d objects are left, %v", n, err)
	}
}

func TestWriteThatWaitsAtTheStoreConflictsWithOneThatOvertakesIt(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	body, err := c.Get(t.Context(), of.Path()+"/a", "")
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	rule := fault.Rule{
		Name: "slow", Match: fault.Match{Verbs: []string{"update"}, Nth: 1}, Action: &fault.StoreWrite{Delay: time.Hour},
	}
	if err := s.faults.Add(rule); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	put := func(label string) string {
		return outcome(do(t, c, client.Request{
			Method: http.MethodPut, Path: of.Path() + "/a",
			Body: []byte(
				`{"metadata":{"name":"a","labels":{"by":"` + label + `"},"resourceVersion":"` + object.Metadata.ResourceVersion +
					`"}}`),
		}))
	}
	slow := make(chan string, 1)
	go func() { slow <- put("slow") }() // ends with the rule
	eventually(t, "the write waits", func() bool { return s.faults.Rules()[0].Acted == 1 })
	for got := ""; got != "200"; { // once the other one has passed the check of its precondition
		if got = put("fast"); got != "200" {
			t.Fatalf("the write that overtakes: %s", got)
		}
	}
	s.faults.Clear()
	if got := <-slow; got != "409" {
		t.Errorf("the write that waited: %s", got)
	}
}

// TestWritesOfControllersFailWhenARuleNamesThem and are done when it is removed. Rules that name no
// user agent are for clients.
func TestWritesOfControllersFailWhenARuleNamesThem(t *testing.T) {
	s := launch(t, func(c *gapless.Config) { c.Controllers = []string{"*"} })
	c := clientOf(t, s.RESTConfig(), http2)
	send := func(method, path, body string) {
		t.Helper()
		if err := do(t, c, client.Request{Method: method, Path: path, Body: []byte(body)}); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	exists := func(path string) bool {
		return outcome(do(t, c, client.Request{Method: http.MethodGet, Path: path})) == "200"
	}
	const all = "/api/v1/namespaces/default/configmaps"
	send(http.MethodPost, all, `{"metadata":{"name":"owner"}}`)
	body, err := c.Get(t.Context(), all+"/owner", "")
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	var owner metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &owner); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	send(http.MethodPost, all,
		`{"metadata":{"name":"dependent","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"`+string(owner.UID)+`"}]}}`)
	send(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"gone"}}`)
	send(http.MethodPost, "/api/v1/namespaces/gone/configmaps", `{"metadata":{"name":"a"}}`)
	fails := func(controller, name string, verbs ...string) fault.Rule {
		return fault.Rule{
			Name: controller, Match: fault.Match{UserAgents: []string{controller}, Names: []string{name}, Verbs: verbs},
			Action: &fault.StoreWrite{Fail: "before"},
		}
	}
	if err := s.faults.Add(
		fault.Rule{
			Name: "clients", Match: fault.Match{Verbs: []string{"delete"}}, Action: &fault.StoreWrite{Delay: time.Nanosecond},
		},
		fails(gapless.GarbageCollectorController, "dependent"),
		fails(gapless.NamespaceController, "a", "delete"),
	); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	send(http.MethodDelete, all+"/owner", "")
	send(http.MethodDelete, "/api/v1/namespaces/gone", "")
	for i := range 2 {
		state := func() fault.State { return s.faults.Rules()[i+1] }
		eventually(t, state().Rule.Name+" writes twice", func() bool { return state().Acted >= 2 })
	}
	for _, path := range []string{all + "/dependent", "/api/v1/namespaces/gone", "/api/v1/namespaces/gone/configmaps/a"} {
		if !exists(path) {
			t.Errorf("%s does not exist any more", path)
		}
	}
	if acted := s.faults.Rules()[0].Acted; acted != 2 {
		t.Errorf("the rule for clients acted %d times, want 2", acted)
	}
	s.faults.Clear()
	eventually(t, "both are gone", func() bool { return !exists(all+"/dependent") && !exists("/api/v1/namespaces/gone") })
}

func TestRulesForAStoreAreRefusedInFrontOfAnotherProcess(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	faults := fault.New(1)
	inFront(t, proxy.Config{Upstream: upstream.URL, Faults: faults})
	if err := faults.Add(fault.Rule{
		Action: &fault.StoreWrite{Fail: "after"},
	}); err == nil || !strings.Contains(err.Error(), "in another process") {
		t.Error(err)
	}
}
