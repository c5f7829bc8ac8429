package access_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// allowing is an upstream that allows everything; before is called before each answer.
func allowing(t *testing.T, before func(w http.ResponseWriter)) *access.Access {
	t.Helper()
	front := relaytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		before(w)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
	}), nil, nil)
	a, err := access.New(access.Config{
		Upstream: &rest.Config{Host: front.URL, TLSClientConfig: rest.TLSClientConfig{CAData: front.CA()}},
	})
	if err != nil {
		t.Fatalf("make a access: %v", err)
	}
	t.Cleanup(a.CloseIdle)
	return a
}

// lists is what a request for a name asks.
func lists(name string) auth.Attributes {
	return auth.Attributes{Verb: "list", Resource: schema.GroupResource{Resource: "configmaps"}, Version: "v1", Namespace: name}
}

// TestReviewsSurviveAnUpstreamThatSendsClientsAway has one like kube-apiserver with --goaway-chance.
func TestReviewsSurviveAnUpstreamThatSendsClientsAway(t *testing.T) {
	var answers atomic.Int64
	a := allowing(t, func(w http.ResponseWriter) {
		if answers.Add(1)%50 == 0 {
			w.Header().Set("Connection", "close")
		}
	})
	who := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	var asking sync.WaitGroup
	for asker := range 8 {
		asking.Go(func() {
			for i := range 40 {
				if d := a.Decide(t.Context(), who, lists(fmt.Sprintf("n-%d-%d", asker, i))); !d.Allowed {
					t.Errorf("a question is answered %v", d.Refusal)
				}
			}
		})
	}
	asking.Wait()
}

// TestAQuestionWhoseAnswerIsLostIsAskedAgain: once, for it changes nothing.
func TestAQuestionWhoseAnswerIsLostIsAskedAgain(t *testing.T) {
	var asked, lost atomic.Int64
	a := allowing(t, func(http.ResponseWriter) {
		if asked.Add(1) <= lost.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	who := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}
	for losses, allowed := range map[int64]bool{0: true, 1: true, 2: false} {
		lost.Store(losses)
		asked.Store(0)
		d := a.Decide(t.Context(), who, lists(fmt.Sprint(losses)))
		if d.Allowed != allowed || asked.Load() != min(losses+1, 2) {
			t.Errorf("%d answers were lost: it is allowed: %v (%v), and asked %d times",
				losses, d.Allowed, d.Refusal, asked.Load())
		}
	}
}
