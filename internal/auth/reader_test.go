package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
)

// known knows everybody as the same user.
type known struct{ user.Info }

func (k known) Authenticate(*http.Request) (user.Info, error) { return k.Info, nil }

func TestAReaderReadsAndNobodyElseIsIt(t *testing.T) {
	reader, other := auth.NewReader("page", "/status"), auth.NewReader("page", "/status")
	same := known{&user.DefaultInfo{Name: "page"}} // who comes with this name
	authenticator, authorizer := reader.Authenticator(same), reader.Authorizer(auth.MastersOnly{})
	decide := func(req *http.Request, a auth.Attributes) bool {
		t.Helper()
		u, err := authenticator.Authenticate(req)
		if err != nil {
			t.Fatalf("authenticate: %v", err)
		}
		allowed := authorizer.Decide(context.Background(), u, a).Allowed
		if err := authorizer.Authorize(context.Background(), u, a); (err == nil) != allowed {
			t.Errorf("%v: decided %v, authorized %v", a, allowed, err)
		}
		return allowed
	}
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, c := range []struct {
		attributes auth.Attributes
		may        bool
	}{
		{auth.Attributes{Verb: "get", Resource: secrets, Name: "a"}, true},
		{auth.Attributes{Verb: "list", Resource: secrets}, true},
		{auth.Attributes{Verb: "get", Path: "/status"}, true},
		{auth.Attributes{Verb: "get", Path: "/metrics"}, false},
		{auth.Attributes{Verb: "post", Path: "/status"}, false},
		{auth.Attributes{Verb: "watch", Resource: secrets}, false},
		{auth.Attributes{Verb: "get", Resource: schema.GroupResource{Resource: "pods"}, Subresource: "log"}, false},
		{auth.Attributes{Verb: "create", Resource: secrets}, false},
		{auth.Attributes{Verb: "update", Resource: secrets, Name: "a"}, false},
		{auth.Attributes{Verb: "patch", Resource: secrets, Name: "a"}, false},
		{auth.Attributes{Verb: "delete", Resource: secrets, Name: "a"}, false},
		{auth.Attributes{Verb: "deletecollection", Resource: secrets}, false},
		{auth.Attributes{Verb: "impersonate", Resource: schema.GroupResource{Resource: "users"}, Name: "root"}, false},
	} {
		if got := decide(reader.Mark(req), c.attributes); got != c.may {
			t.Errorf("%+v: %v, want %v", c.attributes, got, c.may)
		}
		if decide(req, c.attributes) || decide(other.Mark(req), c.attributes) {
			t.Errorf("%+v: somebody else with the name may", c.attributes)
		}
	}
	var none *auth.Reader
	if none.Authenticator(same) != auth.Authenticator(same) || none.Authorizer(auth.MastersOnly{}) != (auth.MastersOnly{}) {
		t.Error("without a reader others are asked")
	}
}
