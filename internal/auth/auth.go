// Package auth authenticates and authorizes requests.
//
// It has three nouns. [Credentials] are the certificates of one data directory:
// its own CA, the serving certificate, and an administrator's client certificate
// with its kubeconfig, all created on first use. A [User] is the caller of a request, by
// its verified client certificate. [Attributes] describe a request to [Authorize]: members
// of system:masters may do everything, others may only ask for their own permissions.
package auth

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/kube"
)

// Masters is the group that may do everything (Kubernetes' name for it).
const Masters = "system:masters"

// User is the caller of a request: the certificate's common name, and its
// organizations as groups, as Kubernetes reads client certificates.
type User struct {
	Name   string
	Groups []string
}

// Authenticate returns the user of a request, by the client certificate that the TLS
// layer verified against the CA. Without a certificate every request is 401, even with a
// bearer token, in a header or in the subprotocols of a WebSocket. With a certificate a
// token is ignored, as in kube-apiserver, where the first authenticator that knows
// the caller decides. RefuseClaims refuses other headers that name a user.
func Authenticate(r *http.Request) (User, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return User{}, kube.Unauthorized()
	}
	subject := r.TLS.VerifiedChains[0][0].Subject
	if subject.CommonName == "" {
		return User{}, kube.Unauthorized()
	}
	return User{Name: subject.CommonName, Groups: subject.Organization}, nil
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

// SelfReviews are the reviews that every authenticated user may create: who they are and
// what they may do (Kubernetes' role system:basic-user).
func SelfReviews() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	}
}

// Authorize returns nil when the user may, and 403 with upstream's text when not.
func Authorize(u User, a Attributes) error {
	if slices.Contains(u.Groups, Masters) {
		return nil
	}
	if a.Verb == "create" && a.Subresource == "" && a.Path == "" && slices.Contains(SelfReviews(), a.Resource) {
		return nil
	}
	if a.Path != "" {
		return kube.Forbidden(schema.GroupResource{}, "", fmt.Sprintf("User %q cannot %s path %q", u.Name, a.Verb, a.Path))
	}
	resource := a.Resource.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	var why strings.Builder
	fmt.Fprintf(&why, "User %q cannot %s resource %q in API group %q", u.Name, a.Verb, resource, a.Resource.Group)
	if a.Namespace != "" {
		fmt.Fprintf(&why, " in the namespace %q", a.Namespace)
	} else {
		why.WriteString(" at the cluster scope")
	}
	return kube.Forbidden(a.Resource, a.Name, why.String())
}
