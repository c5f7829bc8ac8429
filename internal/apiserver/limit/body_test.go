package limit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
)

// TestARequestBehindASlowOneOnItsConnectionIsServed: work that goes on behind the deadline
// of its request must not end the connection's context, which later requests inherit.
func TestARequestBehindASlowOneOnItsConnectionIsServed(t *testing.T) {
	load := limit.NewLoad(limit.Requests{}, limit.NewRefusals())
	connections := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.Context().Err(); err != nil {
			t.Errorf("a request begins with %v", err)
		}
		connections[r.RemoteAddr]++
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Millisecond)
		defer cancel()
		release, err := load.Receive(w, r.WithContext(ctx), "someone")
		if err != nil {
			t.Errorf("receive load: %v", err)
			return
		}
		defer release()
		if r.URL.Path == "/slow" {
			<-time.After(1500 * time.Millisecond) // reads may take a second more than the request
		}
	}))
	defer server.Close()
	for _, path := range []string{"/slow", "/next"} {
		resp, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatalf("post: %v", err)
		}
		_ = resp.Body.Close()
	}
	if len(connections) != 1 {
		t.Errorf("the requests came over %d connections, want one", len(connections))
	}
}
