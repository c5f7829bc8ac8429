package fault_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gapless-io/gapless/fault"
)

// misses returns a set with rules that match no request of these benchmarks.
func misses(t testing.TB, n int) *fault.Set {
	t.Helper()
	s := fault.New(1)
	for range n {
		if err := s.Add(fault.Rule{
			Match: fault.Match{
				Verbs: []string{"watch"}, Resources: []string{"secrets", "deployments.apps"}, Namespaces: []string{"team-*"},
			},
			Action: &fault.Gone{},
		}); err != nil {
			t.Fatalf("add: %v", err)
		}
	}
	return s
}

const watchOfAnInformer = "/api/v1/namespaces/default/pods?allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds=566&watch=true"

// BenchmarkRequest: goal: at most 1 us for rules that do not match.
func BenchmarkRequest(b *testing.B) {
	for _, n := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			h := misses(b, n).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, watchOfAnInformer, nil)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

// discard is a client that takes everything.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Flush()                      {}

// BenchmarkEvent: what an event of a watch costs without rules, with rules that do not match the
// watch (nothing more), and with one whose action reads all of its frames.
func BenchmarkEvent(b *testing.B) {
	line := event("MODIFIED", "a", "12345") + "\n"
	for _, c := range []struct {
		name string
		set  func() *fault.Set
	}{
		{"no set", func() *fault.Set { return nil }},
		{"rules=0", func() *fault.Set { return misses(b, 0) }},
		{"rules=10", func() *fault.Set { return misses(b, 10) }},
		{"a rule for its frames", func() *fault.Set {
			s := fault.New(1)
			if err := s.Add(fault.Rule{Action: &fault.NoBookmarks{}}); err != nil {
				b.Fatalf("add: %v", err)
			}
			return s
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				for b.Loop() {
					_, _ = io.WriteString(w, line) // it is discarded
				}
			})
			if s := c.set(); s != nil {
				h = s.Handler(h)
			}
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, watchOfAnInformer, nil)
			b.ReportAllocs()
			h.ServeHTTP(discard{http.Header{}}, r)
		})
	}
}
