//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// TestControllersGoOnAfterAKill kills the program in the middle of a collection and of
// the deletion of a namespace.
func TestControllersGoOnAfterAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	const dependents = 2000 // half a second's work
	dir := filepath.Join(t.TempDir(), "data")
	p := startProcessOn(t, dir, "--bootstrap", "none")
	c := p.caller(t, http2)
	for _, policy := range []string{"Background", "Foreground", "Orphan"} {
		ref := reference(c.create("default", "owner", "1"), true)
		crowd(16, dependents, func(i int) { c.owned("default", fmt.Sprintf("d%d", i), "", ref) })
		c.namespace("doomed")
		crowd(16, 200, func(i int) { c.create("doomed", fmt.Sprintf("n%d", i), "1") })
		c.delete(configMaps+"/owner", "propagationPolicy="+policy)
		c.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/doomed", "")
		until(t, "the collection has begun", time.Minute, func() bool {
			return c.metric(t, "gapless_garbage_collector_deletions_total")+c.metric(t,
				"gapless_garbage_collector_releases_total") > 0
		})
		c.http.CloseIdleConnections()
		p.kill()

		p = startProcessOn(t, dir, "--bootstrap", "none")
		c = p.caller(t, http2)
		left, _ := c.must(http.StatusOK, http.MethodGet, configMaps, "").at("items").([]any)
		t.Logf("%s: %d objects are there after the kill", policy, len(left))
		c.gone(configMaps + "/owner")
		if policy == "Orphan" {
			items, _ := c.must(http.StatusOK, http.MethodGet, configMaps, "").at("items").([]any)
			if len(items) != dependents {
				t.Errorf("%d of %d orphans are there", len(items), dependents)
			}
			for _, item := range items {
				if o, is := item.(map[string]any); is && owners(o) != "" {
					t.Fatalf("%s still has the owners %s", tree(o).key(), owners(o))
				}
			}
			c.must(http.StatusOK, http.MethodDelete, configMaps, "")
		}
		collected(c)
	}
}
