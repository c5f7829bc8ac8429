package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

func TestDependentsAreDeletedAfterTheirOwner(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	a := c.create("default", "a", "1")
	b := c.owned("default", "b", "", reference(a, false))
	c.owned("default", "c", "", reference(b, true))
	c.create("default", "other", "1")
	c.settled("before")
	for _, name := range []string{"a", "b", "c"} {
		c.present(configMaps + "/" + name)
	}
	if status := c.delete(configMaps+"/a", "propagationPolicy=Background"); status.text("status") != "Success" {
		t.Errorf("the deletion in the background is answered by %v", status)
	}
	c.gone(configMaps + "/b")
	c.gone(configMaps + "/c")
	c.present(configMaps + "/other")
	// An owner that is gone already, and one whose name another object has now.
	c.owned("default", "late", "", reference(a, true))
	c.gone(configMaps + "/late")
	c.create("default", "a", "2")
	c.owned("default", "later", "", reference(a, true))
	c.gone(configMaps + "/later")
	c.present(configMaps + "/a")
}

func TestForegroundDeletionEndsAfterBlockingDependents(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	a := c.create("default", "a", "1")
	b := c.owned("default", "blocks", "", reference(a, true))
	c.owned("default", "below", "x.io/hold", reference(b, true))
	c.owned("default", "loose", "x.io/hold", reference(a, false))
	answer := c.delete(configMaps+"/a", "propagationPolicy=Foreground")
	if finalizers(answer) != "foregroundDeletion" || answer.text("metadata", "deletionTimestamp") == "" {
		t.Errorf("the answer is %v", answer)
	}
	// A dependent with dependents is deleted in the foreground too.
	c.becomes(configMaps+"/below", "is being deleted", func(o tree) bool { return o.text("metadata", "deletionTimestamp") != "" })
	c.becomes(configMaps+"/loose", "is being deleted", func(o tree) bool { return o.text("metadata", "deletionTimestamp") != "" })
	for _, name := range []string{"a", "blocks"} {
		if o := c.must(http.StatusOK, http.MethodGet, configMaps+"/"+name, ""); finalizers(o) != "foregroundDeletion" {
			t.Errorf("%s has the finalizers %s", name, finalizers(o))
		}
	}
	c.merge(configMaps+"/below", `{"metadata":{"finalizers":null}}`)
	c.gone(configMaps + "/blocks")
	c.gone(configMaps + "/a") // the other one does not block it
	c.merge(configMaps+"/loose", `{"metadata":{"finalizers":null}}`)
	c.gone(configMaps + "/loose")

	// An owner that does not block any more is not waited for.
	a = c.create("default", "a", "1")
	c.owned("default", "held", "x.io/hold", reference(a, true))
	c.delete(configMaps+"/a", "propagationPolicy=Foreground")
	c.becomes(configMaps+"/held", "is being deleted", func(o tree) bool { return o.text("metadata", "deletionTimestamp") != "" })
	c.merge(configMaps+"/held", `{"metadata":{"ownerReferences":[`+reference(a, false)+`]}}`)
	c.gone(configMaps + "/a")
	c.merge(configMaps+"/held", `{"metadata":{"finalizers":null}}`)
}

func TestOrphansLoseTheirOwnerAndStay(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	for _, query := range []string{"propagationPolicy=Orphan", "orphanDependents=true"} {
		a, other := c.create("default", "a", "1"), c.create("default", "other", "1")
		for n := range 20 {
			c.owned("default", fmt.Sprintf("d%d", n), "", reference(a, true), reference(other, false))
		}
		if answer := c.delete(configMaps+"/a", query); finalizers(answer) != "orphan" {
			t.Errorf("%s is answered by %v", query, answer)
		}
		c.gone(configMaps + "/a")
		for n := range 20 {
			if o := c.present(fmt.Sprintf("%s/d%d", configMaps, n)); owners(o) != "other" {
				t.Errorf("%s has the owners %s", o.key(), owners(o))
			}
		}
		c.delete(configMaps+"/other", "")
		for n := range 20 {
			c.gone(fmt.Sprintf("%s/d%d", configMaps, n))
		}
	}
}

func TestOneOfSeveralOwnersKeepsAnObject(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	a, b, d := c.create("default", "a", "1"), c.create("default", "b", "1"), c.create("default", "d", "1")
	c.owned("default", "x", "", reference(a, true), reference(b, true), reference(d, false))
	c.delete(configMaps+"/a", "")
	c.becomes(configMaps+"/x", "has two owners", func(o tree) bool { return owners(o) == "b d" })
	c.delete(configMaps+"/b", "propagationPolicy=Foreground")
	c.gone(configMaps + "/b") // it does not wait for an object that stays
	if o := c.present(configMaps + "/x"); owners(o) != "d" {
		t.Errorf("the owners are %s", owners(o))
	}
	c.delete(configMaps+"/d", "")
	c.gone(configMaps + "/x")
}

func TestCirclesOfOwnersAreDeleted(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	for _, policy := range []string{"Foreground", "Background"} {
		first := c.create("default", "first", "1")
		second := c.owned("default", "second", "", reference(first, true))
		third := c.owned("default", "third", "", reference(second, true))
		c.merge(configMaps+"/first", `{"metadata":{"ownerReferences":[`+reference(third, true)+`]}}`)
		self := c.create("default", "self", "1")
		c.merge(configMaps+"/self", `{"metadata":{"ownerReferences":[`+reference(self, true)+`]}}`)
		c.settled("round")
		for _, name := range []string{"first", "second", "third", "self"} {
			c.present(configMaps + "/" + name)
		}
		c.delete(configMaps+"/self", "propagationPolicy="+policy)
		c.delete(configMaps+"/first", "propagationPolicy="+policy)
		for _, name := range []string{"self", "first", "second", "third"} {
			c.gone(configMaps + "/" + name)
		}
	}
	// All members are deleted in the foreground before the collector sees the first.
	a := c.owned("default", "a", "x.io/hold")
	b := c.owned("default", "b", "x.io/hold", reference(a, true))
	c.merge(configMaps+"/a", `{"metadata":{"ownerReferences":[`+reference(b, true)+`]}}`)
	c.must(http.StatusOK, http.MethodDelete, configMaps+"?propagationPolicy=Foreground", "")
	for left := []string{"a", "b"}; len(left) > 0; {
		until(t, "one of "+strings.Join(left, " ")+" waits for nothing", time.Minute, func() bool {
			i := slices.IndexFunc(left, func(name string) bool {
				return finalizers(c.must(http.StatusOK, http.MethodGet, configMaps+"/"+name, "")) == "x.io/hold"
			})
			if i < 0 {
				return false
			}
			c.merge(configMaps+"/"+left[i], `{"metadata":{"finalizers":null}}`)
			c.gone(configMaps + "/" + left[i])
			left = slices.Delete(left, i, i+1)
			return true
		})
	}
}

func TestCollectionGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	const dependents = 600
	for name, test := range map[string]struct {
		first []string // controllers of the first server
		query string
	}{
		"in the middle":          {nil, "propagationPolicy=Background"},
		"in the foreground":      {nil, "propagationPolicy=Foreground"},
		"without its controller": {[]string{"*", "-garbagecollector"}, "propagationPolicy=Background"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchRestartable(t)
			l.cfg.Controllers = test.first
			l.restart(t)
			c := l.caller
			a := c.create("default", "a", "1")
			for n := range dependents {
				c.owned("default", fmt.Sprintf("d%d", n), "", reference(a, true))
			}
			c.delete(configMaps+"/a", test.query)
			l.cfg.Controllers = nil
			l.restart(t)
			c = l.caller
			until(t, "all dependents are collected", time.Minute, func() bool {
				return c.must(http.StatusOK, http.MethodGet, configMaps, "").keys() == ""
			})
		})
	}
}

func TestWithoutCollectorObjectsWaitForAnotherProgram(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{Controllers: []string{"*", "-" + gapless.GarbageCollectorController}}).caller(t, http1)
	for policy, want := range map[string]string{"Foreground": "foregroundDeletion", "Orphan": "orphan", "Background": ""} {
		a := c.create("default", "a", "1")
		c.owned("default", "d", "", reference(a, true))
		c.delete(configMaps+"/a", "propagationPolicy="+policy)
		if want != "" {
			if o := c.must(http.StatusOK, http.MethodGet, configMaps+"/a", ""); finalizers(o) != want {
				t.Errorf("%s: the finalizers are %q, want %s", policy, finalizers(o), want)
			}
			c.merge(configMaps+"/a", `{"metadata":{"finalizers":null}}`) // as a collector ends it
		}
		if r := c.do(http.MethodGet, configMaps+"/a", ""); r.code != http.StatusNotFound {
			t.Errorf("%s: the object stays", policy)
		}
		if o := c.present(configMaps + "/d"); owners(o) != "a" {
			t.Errorf("%s changed the dependent", policy)
		}
		c.remove("default", "d")
	}
	if r := c.do(http.MethodGet, "/metrics", ""); strings.Contains(string(r.body), "garbage_collector") {
		t.Error("there are metrics of a collector that does not run")
	}
	if _, err := gapless.New(gapless.Config{
		Memory: true, Controllers: []string{"-garbage"},
	}); err == nil || !strings.Contains(err.Error(), gapless.GarbageCollectorController) {
		t.Errorf("an unknown controller: %v", err)
	}
}

func TestWithoutNamespaceControllerContentStays(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{Controllers: []string{"garbagecollector"}}).caller(t, http1)
	c.namespace("n")
	c.create("n", "a", "1")
	c.delete("/api/v1/namespaces/n", "")
	c.settled("round")
	c.present("/api/v1/namespaces/n/configmaps/a")
	// Another program does it.
	c.remove("n", "a")
	ns := c.must(http.StatusOK, http.MethodGet, "/api/v1/namespaces/n", "")
	c.must(http.StatusOK, http.MethodPut, "/api/v1/namespaces/n/finalize",
		fmt.Sprintf(
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","resourceVersion":%q},"spec":{"finalizers":[]}}`,
			ns.rv()))
	c.gone("/api/v1/namespaces/n")
}
