package gapless_test

import (
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
)

// BenchmarkRelayedList measures a list of one object that a relay serves from its mirror, over the network, with what
// its client allocates: so that what each request costs is not hidden by its objects.
func BenchmarkRelayedList(b *testing.B) {
	upstream := gaplesstest.New(b)
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	maps := set(b, upstream.RESTConfig()).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(b.Context(), one, metav1.CreateOptions{}); err != nil {
		b.Fatalf("create the object: %v", err)
	}
	r := startRelay(b, gapless.RelayConfig{Upstream: upstream.RESTConfig(), Memory: true, Resources: []string{"configmaps"}})
	client, err := rest.HTTPClientFor(through(r, upstream.RESTConfig()))
	if err != nil {
		b.Fatalf("make a client: %v", err)
	}
	list := func() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet,
			r.URL()+"/api/v1/namespaces/default/configmaps?resourceVersion=0&labelSelector=%21absent", http.NoBody)
		if err != nil {
			b.Fatalf("make a request: %v", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			b.Fatalf("list config maps: %v", err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // it was read
		if err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("list config maps: %s, %v", resp.Status, err)
		}
	}
	list() // the mirror is there
	b.ReportAllocs()
	for b.Loop() {
		list()
	}
}
