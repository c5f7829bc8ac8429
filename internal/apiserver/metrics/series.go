package metrics

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/kinds"
)

// series knows which custom resources have series in the metrics, some 130 each,
// and removes those of versions that are no longer served.
type series struct {
	live *kinds.Live
	// vectors have the labels group, version and resource.
	vectors []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}
	swept atomic.Pointer[kinds.Catalog] // the catalog of the last sweep

	// mu guards seen.
	mu   sync.Mutex
	seen map[kinds.GroupVersionResource]bool
}

// saw records that a resource has series, and sweeps when the catalog has changed. The
// series of a request that ends after a sweep are removed by the next one.
func (s *series) saw(r *kinds.Resource) {
	if r != nil && r.Custom {
		s.mu.Lock()
		s.seen[r.GVR()] = true
		s.mu.Unlock()
	}
	if catalog := s.live.Load(); s.swept.Swap(catalog) != catalog {
		s.sweep(catalog)
	}
}

func (s *series) sweep(catalog *kinds.Catalog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gvr := range s.seen {
		if _, served := catalog.Lookup(gvr); served {
			continue
		}
		for _, v := range s.vectors {
			v.DeletePartialMatch(prometheus.Labels{"group": gvr.Group, "version": gvr.Version, "resource": gvr.Resource})
		}
		delete(s.seen, gvr)
	}
}

// before sweeps before each scrape.
func (s *series) before(scrape http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.sweep(s.live.Load())
		scrape.ServeHTTP(w, r)
	})
}
