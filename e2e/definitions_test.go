package e2e_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

const (
	memoryDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	memoryObjects     = "/apis/t.example.com/v1/namespaces/default/"
	memoryWebhooks    = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
)

// definitionOf is a definition of a kind of t.example.com with a schema.
func definitionOf(kind, schema string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.t.example.com"},
		"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"%s","kind":"%s"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]}}`, plural, plural, kind, schema)
}

// useDefinition makes a definition and uses it in every way, then deletes it.
func useDefinition(t *testing.T, c *caller, kind string) (plural string) {
	t.Helper()
	c.must(http.StatusCreated, http.MethodPost, memoryDefinitions, definitionOf(kind, ruledSchema))
	plural = strings.ToLower(kind) + "s"
	at := memoryObjects + plural
	c.must(http.StatusCreated, http.MethodPost, at,
		fmt.Sprintf(`{"apiVersion":"t.example.com/v1","kind":%q,"metadata":{"name":"a"},"spec":{"n":1}}`, kind))
	c.must(http.StatusOK, http.MethodPatch, at+"/a", `{"spec":{"n":2}}`, "Content-Type: application/merge-patch+json")
	c.must(http.StatusOK, http.MethodGet, at+"/a", "")
	c.must(http.StatusOK, http.MethodGet, at, "")
	c.do(http.MethodGet, at+"?watch=1&resourceVersion=0&timeoutSeconds=1", "")
	return plural
}

// ruledSchema has a default, a pattern and two rules.
const ruledSchema = `{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","minimum":0},` +
	`"s":{"type":"string","default":"x","pattern":"^[a-z]+$"}},
	"x-kubernetes-validations":[{"rule":"self.n < 1000","message":"too many"},{"rule":"!has(oldSelf.n) || self.n >= oldSelf.n",` +
	`"message":"only upwards"}]}}}`

func TestMetricsOfADeletedDefinitionAreRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http2)
	plural := useDefinition(t, c, "Passing")
	count := func() int {
		return strings.Count(string(c.do(http.MethodGet, "/metrics", "").body), `resource="`+plural+`"`)
	}
	if n := count(); n < 50 {
		t.Errorf("%d series while the definition lives", n)
	}
	c.must(http.StatusOK, http.MethodDelete, memoryDefinitions+"/"+plural+".t.example.com", "")
	// The catalog follows a moment after the definition.
	until(t, "the series are gone", time.Minute, func() bool { return count() == 0 })
}

// inUse is the heap in use after collections.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestIdleDefinitionNeedsLittleMemory prints what a definition with rules costs with all
// that belongs to it: when it was just used with every verb, and later.
func TestIdleDefinitionNeedsLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	synctest.Test(t, func(t *testing.T) {
		const definitions, bound = 200, 40 << 10
		a := assemble(t, revlog.Options{Memory: true})
		do := func(method, path, media, body string) {
			r, ok := parseRequest(method, path, media, "application/json", []byte(body))
			if !ok {
				t.Fatalf("%s %s is no request", method, path)
			}
			if answer, _ := serveOne(t, a.handler, r.WithContext(t.Context())); answer.code > 201 {
				t.Fatalf("%s %s: %d", method, path, answer.code)
			}
		}
		use := func(i int) {
			kind := fmt.Sprintf("Kept%d", i)
			at := memoryObjects + strings.ToLower(kind) + "s"
			object := fmt.Sprintf(`{"apiVersion":"t.example.com/v1","kind":%q,"metadata":{"name":"a"},"spec":{"n":1,"s":"y"}}`,
				kind)
			do("POST", memoryDefinitions, "application/json", definitionOf(kind, ruledSchema))
			do("POST", at, "application/json", object)
			do("PATCH", at+"/a", "application/merge-patch+json", `{"spec":{"n":2}}`)
			do("GET", at+"/a", "", "")
			do("GET", at, "", "")
			do("GET", at+"?watch=1&timeoutSeconds=1", "", "")
		}
		use(0)
		before := inUse()
		for i := range definitions {
			use(1 + i)
		}
		used := (inUse() - before) / definitions
		<-time.After(10 * time.Minute)
		synctest.Wait()
		idle := (inUse() - before) / definitions
		t.Logf("a definition that was just used: %d KiB, an idle one: %d KiB", used>>10, idle>>10)
		if idle > bound {
			t.Errorf("an idle definition takes %d KiB, want at most %d", idle>>10, bound>>10)
		}
		runtime.KeepAlive(a)
	})
}
