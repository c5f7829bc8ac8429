package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowd runs n goroutines that share the numbers below limit.
func crowd(n, limit int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < limit; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// reference is an owner reference to an object.
func reference(o tree, blocks bool) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":%t}`,
		o.text("apiVersion"), o.text("kind"), o.text("metadata", "name"), o.text("metadata", "uid"), blocks)
}

// owned creates a ConfigMap in a namespace with owner references and finalizers.
func (c *caller) owned(namespace, name, finalizer string, refs ...string) tree {
	c.t.Helper()
	finalizers := ""
	if finalizer != "" {
		finalizers = fmt.Sprintf(`,"finalizers":[%q]`, finalizer)
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q%s,"ownerReferences":[%s]}}`,
		name, finalizers, strings.Join(refs, ","))
	return c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps", body)
}

// delete deletes an object with options in the query.
func (c *caller) delete(path, query string) tree {
	c.t.Helper()
	return c.must(http.StatusOK, http.MethodDelete, path+"?"+query, "")
}

// gone waits until an object is not there.
func (c *caller) gone(path string) {
	c.t.Helper()
	until(c.t, path+" is gone", time.Minute, func() bool { return c.do(http.MethodGet, path, "").code == http.StatusNotFound })
}

// becomes waits until an object satisfies a condition.
func (c *caller) becomes(path, what string, ok func(o tree) bool) {
	c.t.Helper()
	until(c.t, path+" "+what, time.Minute, func() bool {
		r := c.do(http.MethodGet, path, "")
		return r.code == http.StatusOK && ok(r.tree(c.t))
	})
}

// settled waits until an object whose owner never existed is collected: what was queued
// before was taken before.
func (c *caller) settled(name string) {
	c.t.Helper()
	c.owned("default", name, "", `{"apiVersion":"v1","kind":"ConfigMap","name":"never","uid":"never"}`)
	c.gone(configMaps + "/" + name)
}

// present fails when an object is not there, or is being deleted.
func (c *caller) present(path string) tree {
	c.t.Helper()
	o := c.must(http.StatusOK, http.MethodGet, path, "")
	if o.text("metadata", "deletionTimestamp") != "" {
		c.t.Errorf("%s is being deleted", path)
	}
	return o
}

// owners are the names of an object's owners.
func owners(o tree) string {
	var names []string
	refs, _ := o.at("metadata", "ownerReferences").([]any)
	for _, ref := range refs {
		if r, is := ref.(map[string]any); is {
			names = append(names, tree(r).text("name"))
		}
	}
	return strings.Join(names, " ")
}

// finalizers are an object's.
func finalizers(o tree) string {
	list, _ := o.at("metadata", "finalizers").([]any)
	return strings.Trim(fmt.Sprint(list), "[]")
}

// merge applies a merge patch.
func (c *caller) merge(path, patch string) tree {
	c.t.Helper()
	return c.must(http.StatusOK, http.MethodPatch, path, patch, "Content-Type: application/merge-patch+json")
}

// metric is the value of a metric; -1 if there is none.
func (c *caller) metric(t testing.TB, name string) float64 {
	t.Helper()
	for line := range strings.Lines(string(c.do(http.MethodGet, "/metrics", "").body)) {
		if text, is := strings.CutPrefix(line, name+" "); is {
			var value float64
			if _, err := fmt.Sscan(text, &value); err != nil {
				t.Fatalf("read the numbers: %v", err)
			}
			return value
		}
	}
	return -1
}
