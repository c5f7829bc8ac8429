package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestOnlyAVerifiedCertificateIdentifiesTheCaller(t *testing.T) {
	chain := func(name string, groups ...string) *tls.ConnectionState {
		return &tls.ConnectionState{
			VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: name, Organization: groups}}}},
		}
	}
	sent := chain("eve", user.SystemPrivilegedGroup)
	sent.PeerCertificates, sent.VerifiedChains = sent.VerifiedChains[0], nil
	for _, c := range []struct {
		name   string
		tls    *tls.ConnectionState
		header string
		want   user.Info
		code   int32
	}{
		{"no TLS", nil, "", nil, 401},
		{"no certificate", &tls.ConnectionState{}, "", nil, 401},
		{"a certificate that was sent but not verified", sent, "", nil, 401},
		{"a bearer token", &tls.ConnectionState{}, "Bearer system:masters", nil, 401},
		{"a certificate without a name", chain("", user.SystemPrivilegedGroup), "", nil, 401},
		{
			"a certificate", chain("bob", "a", "b"), "",
			&user.DefaultInfo{Name: "bob", Groups: []string{"a", "b", "system:authenticated"}}, 200,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			r.TLS = c.tls
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			got, err := auth.Certificates{}.Authenticate(r)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if code := wire.StatusOf(err).Code; code != c.code {
				t.Errorf("%d (%v), want %d", code, err, c.code)
			}
		})
	}
}

func TestOnlySystemMastersMayDoMoreThanReviewTheirAccess(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		groups []string
		what   auth.Attributes
		want   string
	}{
		{[]string{"x", user.SystemPrivilegedGroup}, auth.Attributes{Verb: "delete", Resource: pods}, ""},
		{[]string{user.SystemPrivilegedGroup}, auth.Attributes{Verb: "get", Path: "/metrics"}, ""},
		{
			[]string{user.AllAuthenticated},
			auth.Attributes{
				Verb:     "create",
				Resource: schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
			},
			"",
		},
		{
			[]string{user.AllUnauthenticated},
			auth.Attributes{
				Verb:     "create",
				Resource: schema.GroupResource{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
			},
			`selfsubjectaccessreviews.authorization.k8s.io is forbidden: User "bob" cannot create resource ` +
				`"selfsubjectaccessreviews" in API group "authorization.k8s.io" at the cluster scope`,
		},
		{
			nil,
			auth.Attributes{
				Verb: "create", Resource: schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
			},
			`subjectaccessreviews.authorization.k8s.io is forbidden: User "bob" cannot create resource "subjectaccessreviews" ` +
				`in API group "authorization.k8s.io" at the cluster scope`,
		},
		{
			[]string{"system:master"},
			auth.Attributes{Verb: "get", Path: "/metrics"},
			`forbidden: User "bob" cannot get path "/metrics"`,
		},
		{
			nil,
			auth.Attributes{Verb: "list", Resource: pods},
			`pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope`,
		},
		{
			nil,
			auth.Attributes{Verb: "get", Resource: pods, Namespace: "n", Name: "p"},
			`pods "p" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "n"`,
		},
		{
			nil,
			auth.Attributes{
				Verb: "update", Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Subresource: "scale",
				Namespace: "n", Name: "d",
			},
			`deployments.apps "d" is forbidden: User "bob" cannot update resource "deployments/scale" in API group "apps" ` +
				`in the namespace "n"`,
		},
	} {
		err := auth.MastersOnly{}.Authorize(t.Context(), &user.DefaultInfo{Name: "bob", Groups: c.groups}, c.what)
		if c.want == "" {
			if err != nil {
				t.Errorf("%v: %v", c.what, err)
			}
			continue
		}
		if s := wire.StatusOf(err); s.Code != 403 || s.Reason != "Forbidden" || s.Message != c.want {
			t.Errorf("%v: %d %s\nwant %s", c.what, s.Code, s.Message, c.want)
		}
	}
}
