package events_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/admission/plugins/events"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

const head = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: "

// slow is a limit that gives one back in a second, which no test waits for.
func slow(kind string, burst int) string {
	return fmt.Sprintf("{type: %s, qps: 1, burst: %d}", kind, burst)
}

func TestEventsThatComeTooFastAreRefused(t *testing.T) {
	event := func(namespace, component, object string) string {
		return "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: " + namespace + "}, source: {component: " +
			component +
			"}, involvedObject: {kind: Pod, name: " + object + "}}"
	}
	type one struct{ user, event, want string }
	for limits, all := range map[string][]one{
		slow("Server", 2): {
			{"a", event("x", "c", "o"), ""},
			{"b", event("y", "d", "p"), ""},
			{"c", event("z", "e", "q"), "limit reached on type Server for key "},
		},
		slow("Namespace", 1): {
			{"a", event("x", "c", "o"), ""},
			{"a", event("w", "c", "o"), ""},
			{"b", event("x", "d", "p"), "limit reached on type Namespace for key x"},
		},
		slow("User", 1): {
			{"a", event("x", "c", "o"), ""},
			{"b", event("x", "c", "o"), ""},
			{"a", event("w", "d", "p"), "limit reached on type User for key a"},
		},
		slow("SourceAndObject", 1): {
			{"a", event("x", "c", "o"), ""},
			{"a", event("x", "c", "p"), ""},
			{"a", event("x", "d", "o"), ""},
			{"b", event("w", "c", "o"), "limit reached on type SourceAndObject for key cPodo"},
		},
		slow("User", 1) + ", " + slow("Server", 1): {
			{"a", event("x", "c", "o"), ""},
			{"a", event("x", "c", "o"), "[limit reached on type User for key a, limit reached on type Server for key ]"},
		},
		"{type: User, qps: 1, burst: 1, cacheSize: 1}": { // whoever is forgotten begins anew
			{"a", event("x", "c", "o"), ""},
			{"b", event("x", "c", "o"), ""},
			{"a", event("x", "c", "o"), ""},
		},
	} {
		p, err := events.EventRateLimit([]byte(head + "[" + limits + "]"))
		if err != nil {
			t.Fatalf("%s: %v", limits, err)
		}
		for i, o := range all {
			q := pluginstest.Of(p, kinds.GroupResource{Resource: "events"}).By(o.user)
			if err := q.DryRun().About(t, pluginstest.Tree(t, o.event), nil); err != nil {
				t.Errorf("%s: a dry run: %v", limits, err)
			}
			err := q.About(t, pluginstest.Tree(t, o.event), nil)
			if o.want == "" && err != nil ||
				o.want != "" && (err == nil || err.Error() != "Too many requests: "+o.want || wire.StatusOf(err).Code != 429) {
				t.Errorf("%s, event %d: %v, want %q", limits, i, err, o.want)
			}
		}
	}
}

func TestWrongLimitsAreRefused(t *testing.T) {
	for config, want := range map[string]string{
		head + "[]":                               `limits: Invalid value: []: must not be empty`,
		head + "[{type: Pod, qps: 1, burst: 1}]":  `limits[0].type: Unsupported value: "Pod"`,
		head + "[{type: User, burst: 1}]":         "limits[0].qps: Invalid value: 0: must be positive",
		head + "[{type: User, qps: 1}]":           "limits[0].burst: Invalid value: 0: must be positive",
		head + slow("User", 1):                    "configuration of EventRateLimit",
		head + "[{type: User, qps: 1, brust: 1}]": `unknown field "brust"`,
		strings.Replace(head, "v1alpha1", "v2", 1) +
			"[]": "want a Configuration of eventratelimit.admission.k8s.io/v1alpha1",
		head + "[{type: User, qps: 1, burst: 1, cacheSize: -1}]": "limits[0].cacheSize: Invalid value: -1: must not be negative",
	} {
		if _, err := events.EventRateLimit([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add(head + "[" + slow("User", 1) + "]")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = events.EventRateLimit([]byte(text)) // an error is fine
	})
}
