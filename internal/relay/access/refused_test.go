package access_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// TestAWatchGoesOnWhileUpstreamRefusesTheRelayForAMoment: as kube-apiserver does after a start.
func TestAWatchGoesOnWhileUpstreamRefusesTheRelayForAMoment(t *testing.T) {
	u := relaytest.New(t)
	cfg := often(access.Reviews, time.Hour)
	cfg.Refused = time.Second
	a := open(t, u, cfg)
	run(t, a)
	g := grant(t, a, "token-watcher", "watch")
	defer g.Close()
	const binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/relay"
	u.Delete(t, binding)
	began := time.Now()
	// A caller that upstream has not allowed this before is not let in.
	if err := a.Authorize(t.Context(), callerOf(t, a, "token-watcher"),
		configMaps("list")); code(err) != http.StatusServiceUnavailable {
		t.Errorf("a new question is answered %v", err)
	}
	select {
	case <-g.Refused():
		if lasted := time.Since(began); lasted < cfg.Refused/2 {
			t.Errorf("the watch ended after %s with %v", lasted, g.Err())
		}
	case <-t.Context().Done():
	}
	if code(g.Err()) != http.StatusServiceUnavailable {
		t.Errorf("the watch ended with %v, want 503", g.Err())
	}
}
