// Package auth says who is calling, and what callers may do.
//
// [Credentials] are the certificates of one data directory: its own CA, the serving
// certificate, and an administrator's client certificate with its kubeconfig, all created on
// first use. An [Authenticator] identifies the caller of a request, by upstream's user.Info;
// [Certificates] is one. [Attributes] describe a request to an [Authorizer], whose answer is a
// [Decision]. [MastersOnly] is an authorizer for which members of one group may do everything,
// [AlwaysAllow] one for which everybody may; package rbac has the one that reads roles, package nodes that for kubelets. A
// [Union] asks several.
//
// claims.go has which identity headers are refused or ignored, with package authn;
// docs/differences.md lists them.
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

	"github.com/gapless-io/gapless/internal/wire"
)

// Authenticator identifies the caller of a request. Errors: 401, and 503 where who knows the callers
// could not be asked.
type Authenticator interface {
	Authenticate(r *http.Request) (user.Info, error)
}

// Authorizer decides what a caller may do. It is safe for concurrent use.
type Authorizer interface {
	// Authorize returns nil when the user may, and 403 with upstream's text, or the decision's
	// Refusal, when not.
	Authorize(ctx context.Context, u user.Info, a Attributes) error
	// Decide is Authorize for those who also want the reason: reviews, and the audit log.
	Decide(ctx context.Context, u user.Info, a Attributes) Decision
	// Rules returns what a user may do in a namespace, for reviews. An error says which
	// roles are missing.
	Rules(ctx context.Context, u user.Info, namespace string) (Rules, error)
}

// Decision says whether a user may do something.
type Decision struct {
	Allowed bool
	// Denied says that no other authorizer of a Union is to be asked. One that is neither Allowed nor Denied has no
	// opinion.
	Denied bool
	// Reason says why, with upstream's words; nil: there is nothing to say.
	Reason func() string
	// Refusal is the answer if it is not Allowed: 503 where who decides could not be asked, or the
	// answer of another server. Nil: 403 with upstream's text.
	Refusal error
	// Failure is what went wrong while it was decided, if it is not Allowed: the answer is 500. Nil: nothing.
	Failure error
}

// Why returns the reason, or "".
func (d Decision) Why() string {
	if d.Reason == nil {
		return ""
	}
	return d.Reason()
}

// Err returns nil if u may do what a describes, and if not the Refusal, or 403.
func (d Decision) Err(u user.Info, a Attributes) error {
	switch {
	case d.Allowed:
		return nil
	case d.Refusal != nil:
		return d.Refusal
	case d.Failure != nil:
		return wire.Internal(d.Failure)
	}
	return Refused(u, a, d.Why())
}

// Rules are what a user may do.
type Rules struct {
	Resources []authorizationv1.ResourceRule
	Paths     []authorizationv1.NonResourceRule
	// Incomplete says that the user may do more, which cannot be listed.
	Incomplete bool
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
		return nil, wire.Unauthorized()
	}
	subject := r.TLS.VerifiedChains[0][0].Subject
	if subject.CommonName == "" {
		return nil, wire.Unauthorized()
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
	Verb     string
	Resource schema.GroupResource
	// Version is the API version; "*" when a review does not say it. No role depends on it.
	Version     string
	Subresource string
	Namespace   string
	// Name is "" for creations. Lists and watches have one if they select one name.
	Name string
	Path string
	// FieldSelector and LabelSelector are those of a list, watch or deletecollection, as
	// text. No role depends on them.
	FieldSelector, LabelSelector string
}

// harmless returns text that no browser takes for HTML (apiserver
// handlers/responsewriters/errors.go).
func harmless(text string) string {
	if !strings.ContainsAny(text, "&<>") {
		return text
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// Refused is 403 with upstream's text, for a user who may not do what a describes. why is
// added unless it is "".
func Refused(u user.Info, a Attributes, why string) error {
	if why != "" {
		why = ": " + why
	}
	if a.Path != "" {
		return wire.Forbidden(schema.GroupResource{}, "",
			harmless(fmt.Sprintf("User %q cannot %s path %q", u.GetName(), a.Verb, a.Path))+why)
	}
	resource := a.Resource.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s",
		u.GetName(), a.Verb, resource, a.Resource.Group, where)
	return wire.Forbidden(a.Resource, a.Name, harmless(text)+why)
}
