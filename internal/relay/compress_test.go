package relay_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/relay"
)

func TestUpstreamCompressesOnlyWhenAsked(t *testing.T) {
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprint(compress), func(t *testing.T) {
			upstream, _ := open(t)
			passing := passTo(t, upstream.RESTConfig())
			var lists, compressed atomic.Int64
			front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/v1/configmaps" && !r.URL.Query().Has("watch") {
					lists.Add(1)
					if r.Header.Get("Accept-Encoding") == "gzip" {
						compressed.Add(1)
					}
				}
				passing.ServeHTTP(w, r)
			}))
			t.Cleanup(front.Close)
			// client-go heeds DisableCompression with TLS only.
			openRelay(t, &rest.Config{Host: front.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, "",
				func(c *relay.Config) {
					c.Compress, c.Resources = compress, []string{"configmaps"}
				})
			if lists.Load() == 0 || (compressed.Load() > 0) != compress {
				t.Errorf("%d of %d lists may be compressed, want that: %v", compressed.Load(), lists.Load(), compress)
			}
		})
	}
}
