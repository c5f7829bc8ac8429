package past_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/gaplesstest"
)

// completes returns what a shell may complete the last argument to.
func (r *rig) completes(args ...string) []string {
	r.t.Helper()
	out, _, err := r.run(append([]string{"__complete"}, args...)...)
	if err != nil {
		r.t.Fatalf("complete %q: %v", args, err)
	}
	lines := strings.Fields(out)
	return lines[:len(lines)-1] // the last one says what the shell does with them
}

// TestArgumentsAreCompletedByWhatTheServerHas: resources, names behind a slash, and names as a second argument.
func TestArgumentsAreCompletedByWhatTheServerHas(t *testing.T) {
	r := newRig(t, gaplesstest.New(t).RESTConfig())
	for _, name := range []string{"alpha", "also", "beta"} {
		r.apply("test", "/api/v1/namespaces/default/configmaps/"+name,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"}}`)
	}
	for line, want := range map[string]string{
		"history configm":            "configmaps",
		"get deploym":                "deployments",
		"diff configmaps deploym":    "deployments",
		"blame configmaps/al":        "configmaps/alpha configmaps/also",
		"get cm be":                  "beta",
		"history configmaps alpha x": "",
		"history nothings/":          "",
		"history events.ev":          "events.events.k8s.io",
	} {
		if got := strings.Join(r.completes(strings.Split(line, " ")...), " "); got != want {
			t.Errorf("gapless %s is completed to %q, want %q", line, got, want)
		}
	}
	if all := r.completes("history", ""); !slices.Contains(all, "pods") || slices.Contains(all, "tokenreviews") {
		t.Errorf("of resources there are %v", all)
	}
}

func TestNothingIsCompletedWithoutAServer(t *testing.T) {
	r := newRig(t, &rest.Config{Host: "http://127.0.0.1:1"})
	if got := r.completes("history", "dep"); len(got) != 0 {
		t.Errorf("it is completed to %v", got)
	}
}
