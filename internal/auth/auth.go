// Package auth says who is calling, and what callers may do.
//
// It has five nouns. [Credentials] are the certificates of one data directory:
// its own CA, the serving certificate, and an administrator's client certificate
// with its kubeconfig, all created on first use. An [Authenticator] identifies the caller of
// a request, by upstream's user.Info; [Certificates] is one. [Attributes] describe a request
// to an [Authorizer]; [MastersOnly] is one, for which members of one group may do everything.
package auth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/kube"
)

// Authenticator identifies the caller of a request. Errors: 401.
type Authenticator interface {
	Authenticate(r *http.Request) (user.Info, error)
}

// Authorizer decides what a caller may do. It is safe for concurrent use.
type Authorizer interface {
	// Authorize returns nil when the user may, and 403 with upstream's text when not.
	Authorize(ctx context.Context, u user.Info, a Attributes) error
	// Rules returns what a user may do in a namespace, for reviews. It is complete unless
	// there is an error, which says what is missing.
	Rules(ctx context.Context, u user.Info, namespace string) (Rules, error)
}

// Rules are what a user may do.
type Rules struct {
	Resources []authorizationv1.ResourceRule
	Paths     []authorizationv1.NonResourceRule
}

// Certificates identifies callers by client certificates: the user is the common name, its
// organizations are the groups, as Kubernetes reads them.
type Certificates struct{}

// Authenticate returns the user of a request, by the client certificate that the TLS
// layer verified against the CA. Without a certificate every request is 401, even with a
// bearer token, in a header or in the subprotocols of a WebSocket. With a certificate a
// token is ignored, as in kube-apiserver, where the first authenticator that knows
// the caller decides. RefuseClaims refuses other headers that name a user.
func (Certificates) Authenticate(r *http.Request) (user.Info, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, kube.Unauthorized()
	}
	subject := r.TLS.VerifiedChains[0][0].Subject
	if subject.CommonName == "" {
		return nil, kube.Unauthorized()
	}
	return &user.DefaultInfo{Name: subject.CommonName, Groups: authenticated(subject.Organization)}, nil
}

// authenticated adds the group of everybody who is known.
func authenticated(groups []string) []string {
	if slices.Contains(groups, user.AllAuthenticated) {
		return groups
	}
	return append(slices.Clip(groups), user.AllAuthenticated)
}

// Attributes are what a request wants to do. Path is set instead of Resource for
// requests that are not about a resource.
type Attributes struct {
	Verb        string
	Resource    schema.GroupResource
	Subresource string
	Namespace   string
	Name        string
	Path        string
}

// Refused is 403 with upstream's text, for a user who may not do what a describes. why is
// added unless it is "".
func Refused(u user.Info, a Attributes, why string) error {
	if why != "" {
		why = ": " + why
	}
	if a.Path != "" {
		return kube.Forbidden(schema.GroupResource{}, "", fmt.Sprintf("User %q cannot %s path %q%s", u.GetName(), a.Verb, a.Path, why))
	}
	resource := a.Resource.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	var text strings.Builder
	fmt.Fprintf(&text, "User %q cannot %s resource %q in API group %q", u.GetName(), a.Verb, resource, a.Resource.Group)
	if a.Namespace != "" {
		fmt.Fprintf(&text, " in the namespace %q", a.Namespace)
	} else {
		text.WriteString(" at the cluster scope")
	}
	return kube.Forbidden(a.Resource, a.Name, text.String()+why)
}
