// Package auth says who is calling and whether they may.
//
// It has three nouns. [Credentials] are the certificates of one data directory:
// its own CA, the serving certificate, and an administrator's client certificate
// with a kubeconfig around it, all made on first use. A [User] is whom a request
// comes from, by its verified client certificate. [Attributes] are what the
// request wants to do, which [Authorize] allows or not: for now members of
// system:masters may do everything and nobody else anything.
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

// User is whom a request comes from: the certificate's common name, and its
// organizations as groups, as Kubernetes reads client certificates.
type User struct {
	Name   string
	Groups []string
}

// Authenticate returns the user of a request. Only a client certificate that the
// TLS layer verified against our CA counts; without one everything is 401, a
// bearer token too. With one a token is not looked at, as in kube-apiserver, where
// the first authenticator that knows the caller decides.
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
// requests that are about no resource.
type Attributes struct {
	Verb        string
	Resource    schema.GroupResource
	Subresource string
	Namespace   string
	Name        string
	Path        string
}

// Authorize returns nil when the user may, and 403 with upstream's text when not.
func Authorize(u User, a Attributes) error {
	if slices.Contains(u.Groups, Masters) {
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
