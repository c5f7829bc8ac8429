package apiserver_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// taking is an authenticator that removes what it authenticates by, as those of tokens do.
type taking struct{}

func (taking) Authenticate(r *http.Request) (user.Info, error) {
	if r.Header.Get("Authorization") == "" {
		return nil, wire.Unauthorized()
	}
	r.Header.Del("Authorization")
	return &user.DefaultInfo{Name: "someone"}, nil
}

// elsewhere is a Reader of what somebody else is to answer.
type elsewhere struct {
	apiserver.Reader // what it does not have

	released int
}

func (e *elsewhere) Get(context.Context, kinds.Target, string) (*wire.Object, error) {
	return nil, e.pass()
}

func (e *elsewhere) List(ctx context.Context, _ kinds.Target, _ wire.ListOptions) (*wire.List, error) {
	warning.AddWarning(ctx, "", "of nobody")
	return nil, e.pass()
}

func (e *elsewhere) Watch(context.Context, kinds.Target, wire.ListOptions) (wire.Watch, error) {
	return nil, e.pass()
}

func (e *elsewhere) pass() error {
	return &apiserver.FallbackError{Why: "it is a test", Release: func() { e.released++ }}
}

// reading serves a request by ServeReading.
func reading(t *testing.T, w http.ResponseWriter, r *http.Request, change func(*apiserver.Reading)) {
	t.Helper()
	live := kinds.NewLive(builtin.Catalog())
	api := apiserver.New(t.Context(), apiserver.Config{Live: live, Authenticator: taking{}, Authorizer: auth.AlwaysAllow{}})
	rt, err := route.Resolve(live.Load(), r)
	if err != nil {
		t.Fatalf("resolve the route: %v", err)
	}
	of, err := apiserver.Read(r, &rt)
	if err != nil {
		t.Fatalf("read the request: %v", err)
	}
	change(&of)
	api.ServeReading(w, r, rt, &of)
}

func TestAFallbackGetsTheRequestAsItCame(t *testing.T) {
	for _, path := range []string{"/api/v1/pods", "/api/v1/pods?watch=1"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.Header = http.Header{"Authorization": {"Bearer secret"}, "Accept": {"application/json", "*/*"}}
		sent := maps.Clone(r.Header)
		w, from, answered := httptest.NewRecorder(), &elsewhere{}, 0
		w.Header().Set("Age", "7") // of an answer from here
		reading(t, w, r, func(of *apiserver.Reading) {
			of.Reader = from
			of.Fallback = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answered++
				if diff := cmp.Diff(sent, r.Header); diff != "" {
					t.Errorf("%s: headers of the request (-sent +passed on):\n%s", path, diff)
				}
				if len(w.Header()) > 0 || from.released > 0 {
					t.Errorf("%s: before its answer there are headers %v, and %d releases", path, w.Header(), from.released)
				}
				w.WriteHeader(http.StatusTeapot)
			})
		})
		if answered != 1 || from.released != 1 || w.Code != http.StatusTeapot {
			t.Errorf("%s: %d answers, the last %d, and %d releases, want one by 418", path, answered, w.Code, from.released)
		}
	}
}

func TestWithoutAFallbackNobodyElseAnswers(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", http.NoBody)
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	reading(t, w, r, func(of *apiserver.Reading) { of.Reader = &elsewhere{} })
	if w.Code != http.StatusInternalServerError {
		t.Errorf("the answer is %d %s, want 500", w.Code, w.Body)
	}
}

func TestWhoIsRefusedIsNotPassedToTheFallback(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", http.NoBody)
	w := httptest.NewRecorder()
	reading(t, w, r, func(of *apiserver.Reading) {
		of.Reader = &elsewhere{}
		of.Fallback = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the fallback was asked") })
	})
	if w.Code != http.StatusUnauthorized {
		t.Errorf("the answer is %d %s, want 401", w.Code, w.Body)
	}
}
