package faults_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/proxy"
)

func TestWriteThatFailsAtTheStoreIsDoneOrNot(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	for fail, again := range map[string]string{"before": "200", "after": "409"} {
		if err := s.faults.Add(fault.Rule{Match: fault.Match{Namespaces: []string{of.Namespace}}, Action: &fault.StoreWrite{Fail: fail}}); err != nil {
			t.Fatal(err)
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
	if err := s.faults.Add(fault.Rule{Match: fault.Match{Verbs: []string{"deletecollection"}}, Action: &fault.StoreWrite{Fail: "before", Writes: 1}}); err != nil {
		t.Fatal(err)
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
		t.Fatal(err)
	}
	var object struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(body, &object); err != nil {
		t.Fatal(err)
	}
	rule := fault.Rule{Name: "slow", Match: fault.Match{Verbs: []string{"update"}, Nth: 1}, Action: &fault.StoreWrite{Delay: time.Hour}}
	if err := s.faults.Add(rule); err != nil {
		t.Fatal(err)
	}
	put := func(label string) string {
		return outcome(do(t, c, client.Request{
			Method: http.MethodPut, Path: of.Path() + "/a",
			Body: []byte(`{"metadata":{"name":"a","labels":{"by":"` + label + `"},"resourceVersion":"` + object.Metadata.ResourceVersion + `"}}`),
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

func TestRulesForAStoreAreRefusedInFrontOfAnotherProcess(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	faults := fault.New(1)
	inFront(t, proxy.Config{Upstream: upstream.URL, Faults: faults})
	if err := faults.Add(fault.Rule{Action: &fault.StoreWrite{Fail: "after"}}); err == nil || !strings.Contains(err.Error(), "in another process") {
		t.Error(err)
	}
}
