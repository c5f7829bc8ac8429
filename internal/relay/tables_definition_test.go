package relay_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/internal/relay"
)

// showColumn makes a definition show its objects otherwise.
func showColumn(t testing.TB, upstream *rest.Config, column string) {
	t.Helper()
	must(t, upstream, http.MethodPatch, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gizmos.example.com",
		fmt.Sprintf(`{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},`+
			`"additionalPrinterColumns":[%s]}]}}`, column))
}

func TestATableFollowsTheDefinition(t *testing.T) {
	upstream := gaplesstest.New(t)
	define(t, upstream.RESTConfig())
	front := newAltered(t, upstream.RESTConfig())
	s := openRelay(t, front.config, "", nil)
	const path = "/apis/example.com/v1/namespaces/default/gizmos"
	s.knows(t, path)
	if got := must(t, s.config(), http.MethodGet, path+"?includeObject=None", ""); !strings.Contains(aged(got),
		`"cells":["g",7,"…s"]`) {
		t.Fatalf("the table is %s", got)
	}
	_, stream := openTable(t, s.config(), http.MethodGet, path+"?watch=1&resourceVersion=0", "")
	defer func() { _ = stream.Close() }()
	open := lines(stream)
	next(t, open)

	showColumn(t, upstream.RESTConfig(), `{"name":"Color","type":"string","jsonPath":".spec.color"}`)
	eventually(t, func() string { // from the mirror: others may be passed on
		got := must(t, s.config(), http.MethodGet, path+"?includeObject=None&resourceVersion=0", "")
		if strings.Contains(got, `"name":"Color"`) && strings.Contains(got, `"cells":["g","red"]`) {
			return ""
		}
		return got
	})
	// The watch of before would show other columns than it began with: it ends, as upstream ends it.
	must(t, upstream.RESTConfig(), http.MethodPatch, path+"/g", `{"spec":{"color":"blue"}}`)
	if line := next(t, open); line != "" {
		t.Errorf("the watch with other columns goes on: %s", line)
	}
	if asked := front.asked(); len(asked) != 2 {
		t.Errorf("upstream was asked for tables by %q", asked)
	}
}

func TestAnotherVersionOfUpstreamEndsItsTables(t *testing.T) {
	upstream := gaplesstest.New(t)
	direct := clientset(t, upstream.RESTConfig())
	put(t, direct, "a", "1")
	front := newAltered(t, upstream.RESTConfig())
	s := openRelay(t, front.config, "", func(c *relay.Config) { c.Resources = []string{"configmaps"} })
	const path = "/api/v1/namespaces/default/configmaps"
	must(t, s.config(), http.MethodGet, path, "")
	_, stream := openTable(t, s.config(), http.MethodGet, path+"?watch=1&resourceVersion=0", "")
	defer func() { _ = stream.Close() }()
	open := lines(stream)
	next(t, open)

	front.refuse(true)
	front.set(func(_ string, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(`"minor":"37"`), []byte(`"minor":"38"`))
	})
	put(t, direct, "a", "2")
	if code, answer := request(t, s.config(), http.MethodGet, path+"?resourceVersion=0", ""); code != http.StatusOK {
		t.Errorf("the state of the version of before is not served: %d %s", code, answer)
	}
	front.refuse(false)
	eventually(t, func() string {
		put(t, direct, "a", fmt.Sprint(time.Now().UnixNano()))
		if code, answer := request(t, s.config(), http.MethodGet, path+"?resourceVersion=0",
			""); code != http.StatusNotImplemented {
			return "a table of another version is served: " + answer
		}
		return ""
	})
	for line := next(t, open); line != ""; line = next(t, open) {
		t.Logf("before the end: %s", line)
	}
}
