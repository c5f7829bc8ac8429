package gapless_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// TestInformerBehindARelayListsOnceWhileUpstreamFails is the short form of what compat does with
// the built program.
func TestInformerBehindARelayListsOnceWhileUpstreamFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	upstream := gaplesstest.New(t)
	r := startRelay(t, gapless.RelayConfig{
		Upstream: upstream.RESTConfig(), DataDir: filepath.Join(t.TempDir(), "relay"), Resources: []string{"configmaps"},
	})
	cfg := through(r, upstream.RESTConfig())
	waitUntil(t, func() error { // until then requests are passed through
		_, err := set(t, cfg).RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
		return err
	})
	maps := informer.New(informer.For[*corev1.ConfigMap](cfg, corev1.SchemeGroupVersion.WithResource("configmaps"),
		informer.Namespace("default")))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- maps.Run(ctx) }() // ends with ctx
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}()
	for _, step := range []struct {
		name string
		do   func(testing.TB)
	}{
		{"nothing", func(testing.TB) {}},
		{"restart", upstream.Restart},
		{"crash", upstream.Crash},
		{"compaction", func(t testing.TB) { upstream.Compact(t) }},
		{"restart-again", upstream.Restart},
	} {
		step.do(t)
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "after-" + step.name}}
		waitUntil(t, func() error {
			_, err := set(t, upstream.RESTConfig()).CoreV1().ConfigMaps("default").Create(t.Context(), made,
				metav1.CreateOptions{})
			return err
		})
		waitUntil(t, func() error {
			if _, has := maps.Get(informer.Key{Namespace: "default", Name: made.Name}); !has {
				return fmt.Errorf("the informer does not have %s", made.Name)
			}
			return nil
		})
	}
	if got := maps.Status().Lists; got != 1 {
		t.Errorf("the informer listed %d times, want once", got)
	}
}

// TestARelayWhoseUpstreamHangsAsksOneQuestionPerRequest impersonates somebody while no review is answered. What is asked
// first takes all the time that the answers of upstream may take, and so nothing else is asked.
func TestARelayWhoseUpstreamHangsAsksOneQuestionPerRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as an answer of upstream may take")
	}
	u := relaytest.New(t)
	r := atRelay{
		Relay: startRelay(t, gapless.RelayConfig{Upstream: u.RESTConfig(), Memory: true, Resources: []string{"configmaps"}}),
		roots: x509.NewCertPool(),
	}
	r.roots.AppendCertsFromPEM(r.CA())
	jane := r.as(t, "HTTP/2", "token-jane")
	const list = "GET /api/v1/namespaces/shop/configmaps"
	waitUntil(t, func() error { // until then requests are passed through
		if code, answer := r.as(t, "HTTP/1.1", "token-root").do(t, "GET /readyz", ""); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, answer)
		}
		return nil
	})
	if code, answer := jane.do(t, list, ""); code != http.StatusOK { // whose token it is is known then
		t.Fatalf("list: %d %s", code, answer)
	}
	u.Inject(t, "delay,for=1m,resources=subjectaccessreviews.authorization.k8s.io")
	code, answer := jane.do(t, list, "", "Impersonate-User", "joe")
	if code != http.StatusServiceUnavailable || !strings.Contains(answer, "what jane may do was not decided within 10s") {
		t.Errorf("impersonate while upstream hangs: %d %s", code, answer)
	}
	if rules := u.Faults().Rules(); len(rules) != 1 || rules[0].Acted != 1 {
		t.Errorf("upstream was asked as often as the rule was applied: %+v", rules)
	}
}
