package relay_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refusal answers 403 to a relay's reads of ConfigMaps while on is set.
type refusal struct {
	on   atomic.Bool
	done atomic.Int64 // how often
}

// refusing is a transport with a refusal.
type refusing struct {
	*refusal

	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.on.Load() || !strings.Contains(req.URL.Path, "/configmaps") {
		return r.next.RoundTrip(req)
	}
	r.done.Add(1)
	answer := httptest.NewRecorder()
	answer.Header().Set("Content-Type", "application/json")
	answer.WriteHeader(http.StatusForbidden)
	// it is in memory
	_, _ = answer.WriteString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	return answer.Result(), nil
}

// TestReadersStayWhileUpstreamRefusesTheRelayForAMoment: kube-apiserver does that after its start,
// before it has read the roles.
func TestReadersStayWhileUpstreamRefusesTheRelayForAMoment(t *testing.T) {
	upstream, direct := open(t)
	put(t, direct, "a", "1")
	r := &refusal{}
	cfg := upstream.RESTConfig()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{r, next} })
	s := openRelay(t, cfg, "", nil)
	relayed := clientset(t, s.config())
	_, rv := list(t, relayed, metav1.ListOptions{})
	w := follow(t, relayed, rv)
	eventually(t, func() string {
		if len(upstream.Watches()) == 0 {
			return "the relay does not watch"
		}
		return ""
	})
	r.on.Store(true)
	upstream.Restart(t) // which ends the relay's watch
	eventually(t, func() string {
		if r.done.Load() < 2 {
			return "the relay was not refused"
		}
		return ""
	})
	r.on.Store(false)
	b := put(t, direct, "b", "1")
	if got, want := events(t, w, 1)[0], "ADDED b "+b.ResourceVersion+" 1"; got != want {
		t.Errorf("the watch has %q, want %q", got, want)
	}
}
