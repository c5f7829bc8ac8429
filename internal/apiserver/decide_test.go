package apiserver_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
)

// waiting waits for the deadline of what it is asked; verb by verb it may allow at once.
type waiting struct {
	auth.AlwaysDeny

	allows string // a verb

	// mu guards the rest.
	mu        sync.Mutex
	deadlines []time.Time // of all questions; zero: none
}

func (w *waiting) Authorize(ctx context.Context, u user.Info, a auth.Attributes) error {
	return w.Decide(ctx, u, a).Err(u, a)
}

func (w *waiting) Decide(ctx context.Context, _ user.Info, a auth.Attributes) auth.Decision {
	deadline, _ := ctx.Deadline()
	w.mu.Lock()
	w.deadlines = append(w.deadlines, deadline)
	w.mu.Unlock()
	if a.Verb == w.allows {
		return auth.Decision{Allowed: true}
	}
	if deadline.IsZero() {
		return auth.Decision{}
	}
	<-ctx.Done()
	return auth.Decision{Refusal: context.Cause(ctx)}
}

// TestQuestionsAboutOneRequestHaveOneDeadline asks for what needs several, and for what needs one, which has none.
func TestQuestionsAboutOneRequestHaveOneDeadline(t *testing.T) {
	for _, c := range []struct {
		allows    string
		headers   []string
		questions int // impersonate-on:user-info:list, impersonate, list
		code      int
	}{
		{"", []string{"Impersonate-User: jane"}, 2, http.StatusServiceUnavailable},
		{"impersonate", []string{"Impersonate-User: jane"}, 3, http.StatusServiceUnavailable},
		{"", nil, 1, http.StatusForbidden},
	} {
		w := &waiting{allows: c.allows}
		d := openServer(t, func(cfg *apiserver.Config) { cfg.Authorizer, cfg.DecideWithin = w, time.Millisecond })
		a := d.by(d.h2, "GET", "/api/v1/namespaces", "", c.headers...)
		if a.StatusCode != c.code || c.headers != nil && !strings.Contains(a.body, "was not decided within 1ms") {
			t.Errorf("%q, %q: %d %s", c.headers, c.allows, a.StatusCode, a.body)
		}
		if len(w.deadlines) != c.questions || len(slices.Compact(slices.Clone(w.deadlines))) != 1 ||
			w.deadlines[0].IsZero() != (c.headers == nil) {
			t.Errorf("%q, %q: the deadlines of the questions are %v", c.headers, c.allows, w.deadlines)
		}
	}
}
