package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

// conditions are those of an object as "type=status reason: message", one a line.
func conditions(o tree) string {
	var lines strings.Builder
	list, _ := o.at("status", "conditions").([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		c := tree(m)
		lines.WriteString(c.text("type") + "=" + c.text("status") + " " + c.text("reason") + ": " + c.text("message") + "\n")
	}
	return lines.String()
}

func TestNamespaceSaysWhatItWaitsForAndPodsEndFirst(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	c := launch(t, gapless.Config{DisableAdmissionPlugins: []string{"ServiceAccount"}}).caller(t, http1) // nobody makes accounts
	c.namespace("n")
	const (
		maps = "/api/v1/namespaces/n/configmaps"
		pod  = "/api/v1/namespaces/n/pods/p"
		ns   = "/api/v1/namespaces/n"
		ok   = `NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered
NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed
NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization
`
	)
	c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/n/pods",
		`{"metadata":{"name":"p","finalizers":["x.io/a","x.io/b"]},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	c.owned("n", "held", "x.io/a")
	c.owned("n", "other", "")
	c.delete(ns, "")
	c.becomes(ns, "waits for the pod", func(o tree) bool {
		return conditions(o) == ok+
			`NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances
NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x.io/a in 1 resource instances, x.io/b in 1 resource instances
`
	})
	c.present(maps + "/other")
	c.merge(pod, `{"metadata":{"finalizers":null}}`)
	c.becomes(ns, "waits for the ConfigMap", func(o tree) bool {
		return conditions(o) == ok+
			`NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances
NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x.io/a in 1 resource instances
`
	})
	c.gone(maps + "/other")
	for _, item := range []string{"0", "4"} {
		if at := c.must(http.StatusOK, http.MethodGet, ns, "").text("status",
			"conditions", item, "lastTransitionTime"); at == "" {
			t.Errorf("condition %s has no time", item)
		}
	}
	c.merge(maps+"/held", `{"metadata":{"finalizers":null}}`)
	c.gone(ns)
}
