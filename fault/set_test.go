package fault_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/faulthost"
)

// acts reports whether the set changes a request.
func acts(t testing.TB, h http.Handler, method, target string, header ...string) bool {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code != http.StatusOK
}

func fine() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
}

func TestMatchSelectsByEachField(t *testing.T) {
	const deployment = "/apis/apps/v1/namespaces/team-a/deployments/web"
	for name, c := range map[string]struct {
		match  fault.Match
		method string
		target string
		want   bool
	}{
		"everything":         {fault.Match{}, "GET", "/version", true},
		"verb":               {fault.Match{Verbs: []string{"list", "get"}}, "GET", deployment, true},
		"other verb":         {fault.Match{Verbs: []string{"update"}}, "GET", deployment, false},
		"watch":              {fault.Match{Verbs: []string{"watch"}}, "GET", "/api/v1/pods?watch=1", true},
		"watch that is none": {fault.Match{Verbs: []string{"watch"}}, "GET", "/api/v1/pods?watch=false", false},
		"old path of watches": {
			fault.Match{Verbs: []string{"watch"}, Resources: []string{"pods"}}, "GET", "/api/v1/watch/pods", true,
		},
		"deletecollection": {
			fault.Match{Verbs: []string{"deletecollection"}}, "DELETE", "/api/v1/namespaces/x/pods", true,
		},
		"resource":                  {fault.Match{Resources: []string{"deployments.apps"}}, "GET", deployment, true},
		"resource of another group": {fault.Match{Resources: []string{"deployments"}}, "GET", deployment, false},
		"core resource":             {fault.Match{Resources: []string{"pods"}}, "GET", "/api/v1/pods", true},
		"group with dots": {
			fault.Match{Resources: []string{"leases.coordination.k8s.io"}}, "GET", "/apis/coordination.k8s.io/v1/leases", true,
		},
		"any resource":                 {fault.Match{Resources: []string{"*"}}, "GET", deployment, true},
		"any resource, but it is none": {fault.Match{Resources: []string{"*"}}, "GET", "/version", false},
		"namespace":                    {fault.Match{Namespaces: []string{"b", "team-*"}}, "GET", deployment, true},
		"other namespace":              {fault.Match{Namespaces: []string{"team"}}, "GET", deployment, false},
		"name":                         {fault.Match{Names: []string{"w?b"}}, "GET", deployment, true},
		"name in a selector": {
			fault.Match{Names: []string{"web"}}, "GET", "/api/v1/pods?fieldSelector=metadata.name%3Dweb", true,
		},
		"other name":                    {fault.Match{Names: []string{"web"}}, "GET", "/api/v1/pods", false},
		"subresource":                   {fault.Match{Subresources: []string{"status"}}, "GET", deployment + "/status", true},
		"the object and no subresource": {fault.Match{Subresources: []string{""}}, "GET", deployment + "/status", false},
		"user agent":                    {fault.Match{UserAgents: []string{"kubectl/*"}}, "GET", "/version", true},
		"other user agent":              {fault.Match{UserAgents: []string{"curl*"}}, "GET", "/version", false},
		"status of a namespace": {
			fault.Match{Resources: []string{"namespaces"}, Subresources: []string{"status"}},
			"PUT",
			"/api/v1/namespaces/x/status", true,
		},
		"a namespace is in itself, as in authorization": {
			fault.Match{Namespaces: []string{"x"}}, "GET", "/api/v1/namespaces/x", true,
		},
	} {
		s := fault.New(1)
		if err := s.Add(fault.Rule{Match: c.match, Action: &fault.Unavailable{}}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := acts(t, s.Handler(fine()), c.method, c.target, "User-Agent", "kubectl/v1.37 (linux/amd64)"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNthEveryAndCountSelectByOrder(t *testing.T) {
	for want, r := range map[string]fault.Rule{
		"..x.......": {Match: fault.Match{Nth: 3}},
		"..x..x..x.": {Match: fault.Match{Every: 3}},
		"..x..x....": {Match: fault.Match{Every: 3}, Count: 2},
		"xxxx......": {Count: 4},
	} {
		s := fault.New(1)
		r.Action = &fault.Unauthorized{}
		r.Match.Verbs = []string{"list"}
		if err := s.Add(r); err != nil {
			t.Fatalf("add: %v", err)
		}
		h, got := s.Handler(fine()), ""
		for range len(want) {
			acts(t, h, "GET", "/version") // it does not count
			got += map[bool]string{true: "x", false: "."}[acts(t, h, "GET", "/api/v1/pods")]
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
		state := s.Rules()[0]
		if state.Matched != int64(len(want)) || state.Acted != int64(strings.Count(want, "x")) {
			t.Errorf("%d matched and %d acted", state.Matched, state.Acted)
		}
	}
}

func TestSeedAndOrderDecideWhichRequestsFail(t *testing.T) {
	run := func(seed uint64, more ...fault.Rule) string {
		s := fault.New(seed)
		rules := append(more, fault.Rule{
			Name: "half", Match: fault.Match{Probability: 0.5, Verbs: []string{"list"}}, Action: &fault.Unauthorized{},
		})
		if err := s.Add(rules...); err != nil {
			t.Fatalf("add: %v", err)
		}
		h, got := s.Handler(fine()), ""
		for range 64 {
			got += map[bool]string{true: "x", false: "."}[acts(t, h, "GET", "/api/v1/pods")]
		}
		return got
	}
	first := run(1)
	if n := strings.Count(first, "x"); n < 16 || n > 48 {
		t.Errorf("%d of 64", n)
	}
	if again := run(1); again != first {
		t.Errorf("%s and %s with one seed", first, again)
	}
	if with := run(1, fault.Rule{
		Match: fault.Match{Probability: 0.5, Verbs: []string{"get"}}, Action: &fault.Cut{},
	}); with != first {
		t.Error("a rule changes the choices of another")
	}
	if other := run(2); other == first {
		t.Error("another seed chooses the same")
	}
}

func TestWindowBeginsAndEndsAfterTheRuleWasAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fault.New(1)
		if err := s.Add(fault.Rule{
			Match: fault.Match{After: 2 * time.Second, Until: 4 * time.Second}, Action: &fault.Unauthorized{},
		}); err != nil {
			t.Fatalf("add: %v", err)
		}
		h := s.Handler(fine())
		for i, want := range []bool{false, false, true, true, false} {
			if got := acts(t, h, "GET", "/api/v1/pods"); got != want {
				t.Errorf("after %d s: %v", i, got)
			}
			<-time.After(time.Second)
		}
	})
}

// writer differs from others.
type writer struct{ *httptest.ResponseRecorder }

func TestRequestThatNoRuleMatchesGetsTheOriginalWriter(t *testing.T) {
	var got []http.ResponseWriter
	s := fault.New(1)
	h := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = append(got, w) }))
	w := &writer{httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods?watch=1", nil)
	h.ServeHTTP(w, r)
	if err := s.Add(fault.Rule{Match: fault.Match{Verbs: []string{"list"}}, Action: &fault.Duplicate{}}); err == nil {
		t.Fatal("duplicate on lists")
	}
	if err := s.Add(fault.Rule{
		Match: fault.Match{Verbs: []string{"watch"}, Resources: []string{"secrets"}}, Action: &fault.Duplicate{},
	}); err != nil {
		t.Fatalf("add: %v", err)
	}
	h.ServeHTTP(w, r)
	if len(got) != 2 || slices.ContainsFunc(got, func(g http.ResponseWriter) bool { return g != http.ResponseWriter(w) }) {
		t.Error("another writer")
	}
	if n := testing.AllocsPerRun(100, func() { s.Handler(fine()) }); n > 1 {
		t.Errorf("%v allocations to wrap", n)
	}
	h = s.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if n := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); n != 0 {
		t.Errorf("%v allocations for a request that no rule matches", n)
	}
}

// host counts what it is asked for.
type host struct{ backups, restarts int }

func (h *host) Backup() error        { h.backups++; return nil }
func (h *host) Restart(string) error { h.restarts++; return errors.New("no power") }

func TestHostKeepsACopyWhenARuleIsAddedThatBringsItBack(t *testing.T) {
	h := &host{}
	s := fault.New(1)
	faulthost.Of(s).SetHost(h)
	older := fault.Rule{Name: "older", Action: &fault.Restart{Store: fault.OlderStore}, Count: 1}
	if err := s.Add(older, fault.Rule{Action: &fault.Delay{}}); err == nil || h.backups != 0 {
		t.Errorf("%v, and %d copies for rules that are refused", err, h.backups)
	}
	if err := s.Add(older, fault.Rule{Action: &fault.Restart{Store: fault.WipedStore}, Count: 1}); err != nil || h.backups != 1 {
		t.Errorf("%v, %d copies", err, h.backups)
	}
	func() {
		defer func() { _ = recover() }() // the request gets no answer
		acts(t, s.Handler(fine()), "GET", "/version")
	}()
	if state := s.Rules()[0]; h.restarts != 1 || state.Problem != "no power" {
		t.Errorf("%d restarts, problem %q", h.restarts, state.Problem)
	}
}
