package peer

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

func TestAllocsAreThoseOfTheWorkAlone(t *testing.T) {
	var allocated atomic.Int64
	name := "go_memstats_mallocs_total"
	metrics := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# HELP %[1]s text\n# TYPE %[1]s counter\n%[1]s %[2]v\nother 7\n", name, float64(allocated.Add(1_000_000)))
	}))
	t.Cleanup(metrics.Close)
	roots := metrics.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs //nolint:forcetypeassert // httptest makes it
	s := &Server{
		Program: Program{Name: Gapless},
		Target: wire.Target{
			Address: metrics.Listener.Addr().String(), TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
		},
	}
	work := func() error { allocated.Add(321); return nil }
	if got, err := s.Allocs(t.Context(), work); got != 321 || err != nil {
		t.Errorf("%d allocations, %v; want 321", got, err)
	}
	name = "go_other"
	if _, err := s.Allocs(t.Context(), work); err == nil || !strings.Contains(err.Error(), "go_memstats_mallocs_total") {
		t.Errorf("without the metric: %v", err)
	}
}
