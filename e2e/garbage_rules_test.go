package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

const clusterRoles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

// invalidOwners are the objects in Events about owners of other namespaces.
func (c *caller) invalidOwners(namespace string) string {
	c.t.Helper()
	var names []string
	items, _ := c.must(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+namespace+"/events", "").at("items").([]any)
	for _, item := range items {
		o, _ := item.(map[string]any)
		if e := tree(o); e.text("reason") == "OwnerRefInvalidNamespace" {
			names = append(names, e.text("involvedObject", "name")+": "+e.text("message"))
		}
	}
	return strings.Join(names, "; ")
}

func TestOwnersOfOtherNamespacesCountAsMissing(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	c.namespace("other")
	a := c.create("other", "a", "1")
	c.owned("default", "d", "", reference(a, true))
	c.gone(configMaps + "/d")
	c.present("/api/v1/namespaces/other/configmaps/a")
	want := fmt.Sprintf(`d: ownerRef [v1/ConfigMap, namespace: default, name: a, uid: %s] does not exist in namespace "default"`,
		a.text("metadata", "uid"))
	if got := c.invalidOwners("default"); got != want {
		t.Errorf("the Events are %q, want %q", got, want)
	}
}

func TestClusterScopedObjectsAndTheirOwners(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{Bootstrap: gapless.BootstrapNone}).caller(t, http1)
	role := func(name string, refs ...string) tree {
		return c.must(http.StatusCreated, http.MethodPost, clusterRoles,
			fmt.Sprintf(
				`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q,`+
					`"ownerReferences":[%s]}}`, name, strings.Join(refs, ",")))
	}
	top := role("top")
	role("middle", reference(top, true))
	c.owned("default", "below", "", reference(top, true))
	a := c.create("default", "a", "1")
	role("wrong", reference(a, true))
	c.delete(configMaps+"/a", "")
	c.delete(clusterRoles+"/top", "propagationPolicy=Foreground")
	for _, path := range []string{clusterRoles + "/top", clusterRoles + "/middle", configMaps + "/below"} {
		c.gone(path)
	}
	c.settled("round")
	c.present(clusterRoles + "/wrong")
	// Nor is one whose namespaced owner exists; that one is reported.
	b := c.create("default", "b", "1")
	role("wrong-too", reference(b, true))
	until(t, "the Event is there", time.Minute, func() bool {
		return strings.HasPrefix(c.invalidOwners("default"), "wrong-too: ")
	})
	c.present(clusterRoles + "/wrong-too")
}

func TestOwnersOfUnknownKindsKeepAnObjectUntilTheKindIsKnown(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	a := c.create("default", "a", "1")
	for name, apiVersion := range map[string]string{
		"d": "t.example.com/v1", "e": "t.example.com/v2", "f": "other.example.com/v1",
	} {
		c.owned("default",
			name, "", fmt.Sprintf(`{"apiVersion":%q,"kind":"Foo","name":"x","uid":"1"}`, apiVersion), reference(a, true))
	}
	c.delete(configMaps+"/a", "")
	c.settled("round")
	for _, name := range []string{"d", "e", "f"} {
		if o := c.present(configMaps + "/" + name); owners(o) != "x a" {
			t.Errorf("%s has the owners %s", name, owners(o))
		}
	}
	until(t, "the metric counts them", time.Minute, func() bool {
		return c.metric(t, `gapless_garbage_collector_waiting{state="unknown_kind"}`) == 3
	})
	c.define(false, false, false)
	c.gone(configMaps + "/d")
	c.define(false, false, true) // also v2
	c.gone(configMaps + "/e")
	c.present(configMaps + "/f")
}

func TestCustomResourcesOwnAndAreOwned(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	c.define(false, false, true)
	foo := c.foo("owner", "1")
	c.owned("default", "d", "", reference(foo, true))
	second := strings.ReplaceAll(reference(foo, true), "t.example.com/v1", "t.example.com/v2") // another served version
	c.owned("default", "e", "", second)
	c.merge(foos+"/"+c.foo("below", "1").text("metadata", "name"), `{"metadata":{"ownerReferences":[`+second+`]}}`)
	c.settled("round")
	c.present(foos + "/below")
	c.present(configMaps + "/e")
	c.delete(foos+"/owner", "propagationPolicy=Foreground")
	for _, path := range []string{foos + "/owner", foos + "/below", configMaps + "/d", configMaps + "/e"} {
		c.gone(path)
	}
	// The objects of a definition that is deleted, and what they own.
	foo = c.foo("owner", "2")
	c.owned("default", "d", "", reference(foo, true))
	c.delete(definitions+"/foos.t.example.com", "")
	c.gone(definitions + "/foos.t.example.com")
	c.gone(configMaps + "/d")
}

func TestJobsAndReplicationControllersOrphanByDefault(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	const (
		jobs        = "/apis/batch/v1/namespaces/default/jobs"
		controllers = "/api/v1/namespaces/default/replicationcontrollers"
		pod         = `{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":%q,"containers":[{"name":"c","image":"i"}]}}`
	)
	job := fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"template":`+pod+`}}`, "Never")
	rc := fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"r"},"spec":{"selector":{"a":"b"},"template":`+pod+
			`}}`, "Always")
	for _, test := range []struct {
		at, name, body string
		warns          bool
	}{{jobs, "j", job, true}, {controllers, "r", rc, false}} {
		owner := c.must(http.StatusCreated, http.MethodPost, test.at, test.body)
		c.owned("default", "d", "", reference(owner, true))
		r := c.do(http.MethodDelete, test.at+"/"+test.name, "")
		if finalizers(r.tree(t)) != "orphan" ||
			strings.Contains(r.header.Get("Warning"), "child pods are preserved by default") != test.warns {
			t.Errorf("%s: %s %s", test.at, r.header, r.body)
		}
		c.gone(test.at + "/" + test.name)
		if o := c.present(configMaps + "/d"); owners(o) != "" {
			t.Errorf("the owners are %s", owners(o))
		}
		c.remove("default", "d")
		c.must(http.StatusCreated, http.MethodPost, test.at, test.body)
		r = c.do(http.MethodDelete, test.at+"/"+test.name+"?propagationPolicy=Background", "")
		if r.tree(t).text("status") != "Success" || r.header.Get("Warning") != "" {
			t.Errorf("%s in the background: %s %s", test.at, r.header, r.body)
		}
	}
}

func TestPolicyOfADeletionCanBeChanged(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	a := c.create("default", "a", "1")
	c.owned("default", "d", "x.io/hold", reference(a, true))
	if answer := c.delete(configMaps+"/a",
		"propagationPolicy=Foreground&dryRun=All"); finalizers(answer) != "foregroundDeletion" {
		t.Errorf("a dry run is answered by %v", answer)
	}
	c.present(configMaps + "/a")
	c.delete(configMaps+"/a", "propagationPolicy=Foreground")
	if again := c.delete(configMaps+"/a", ""); finalizers(again) != "foregroundDeletion" {
		t.Errorf("a second deletion without a policy is answered by %v", again)
	}
	if status := c.delete(configMaps+"/a", "propagationPolicy=Background"); status.text("status") != "Success" {
		t.Errorf("a deletion in the background is answered by %v", status)
	}
	c.merge(configMaps+"/d", `{"metadata":{"finalizers":null}}`)
	c.gone(configMaps + "/d")
	// A finalizer that a client has set is the default.
	b := c.owned("default", "b", "orphan")
	c.owned("default", "e", "", reference(b, true))
	c.delete(configMaps+"/b", "")
	c.gone(configMaps + "/b")
	if o := c.present(configMaps + "/e"); owners(o) != "" {
		t.Errorf("the owners are %s", owners(o))
	}
}

func TestNamespacesOwnAndAreDeletedInTheForeground(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	ns := c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"n"}}`)
	c.owned("n", "inside", "x.io/hold", reference(ns, true))
	c.owned("default", "outside", "", reference(ns, true))
	c.delete("/api/v1/namespaces/n", "propagationPolicy=Foreground")
	c.gone(configMaps + "/outside")
	if o := c.must(http.StatusOK, http.MethodGet, "/api/v1/namespaces/n", ""); finalizers(o) != "foregroundDeletion" {
		t.Errorf("the finalizers are %s", finalizers(o))
	}
	c.merge("/api/v1/namespaces/n/configmaps/inside", `{"metadata":{"finalizers":null}}`)
	c.gone("/api/v1/namespaces/n")
}
