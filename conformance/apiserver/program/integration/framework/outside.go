package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"
)

// outside is what a test gives upstream's server in this process, and the program asks over HTTP.
type outside struct {
	// Authorizer stands for those of the program: it goes on itself.
	authorizer.Authorizer

	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	// rbac: the program is to have its own authorizer of roles.
	rbac bool
	// nobody: the client has no token, so that the authenticator is asked about it.
	nobody bool
	more   []string // flags
}

func newOutside() *outside {
	return &outside{Authorizer: authorizer.AuthorizerFunc(
		func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionNoOpinion, "", nil
		})}
}

// OwnRBAC stands for a function of a test that makes upstream's authorizer of roles: the program has its own.
func OwnRBAC(config *controlplane.Config) (authorizer.Authorizer, func()) {
	o := config.ControlPlane.Generic.Authorization.Authorizer.(*outside)
	o.rbac = true
	return o, func() {}
}

// flags serves what the test has given until the test ends, and returns the flags by which the program asks it.
func (o *outside) flags(t testing.TB, dir string, opts *options.ServerRunOptions) ([]string, error) {
	flags, modes := o.more, opts.Authorization.Modes
	if o.authenticator != nil {
		file, err := kubeconfig(t, dir, "authentication", o.reviewToken)
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--authentication-token-webhook-config-file="+file,
			"--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl=0s")
	}
	switch {
	case o.rbac:
		flags = append(flags, "--authorization-mode="+strings.Join(append([]string{"RBAC"}, modes...), ","))
	case o.authorizer != nil:
		file, err := kubeconfig(t, dir, "authorization", o.reviewAccess)
		if err != nil {
			return nil, err
		}
		flags = append(flags, "--authorization-webhook-config-file="+file, "--authorization-webhook-version=v1",
			"--authorization-webhook-cache-authorized-ttl=0s", "--authorization-webhook-cache-unauthorized-ttl=0s",
			"--authorization-mode="+strings.Join(append([]string{"Webhook"}, modes...), ","))
	}
	return flags, nil
}

// kubeconfig serves a webhook, and writes the file that names it.
func kubeconfig(t testing.TB, dir, name string, answer func(http.ResponseWriter, *http.Request) error) (string, error) {
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := answer(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(web.Close)
	file := filepath.Join(dir, name+".kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"contexts: [{name: a, context: {cluster: a, user: a}}]\n"+
		"users: [{name: a, user: {}}]\nclusters: [{name: a, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n", web.URL)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// reviewToken asks the authenticator about a request that has the token of a TokenReview.
func (o *outside) reviewToken(w http.ResponseWriter, r *http.Request) error {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return err
	}
	ctx := r.Context()
	if len(review.Spec.Audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, review.Spec.Audiences)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+review.Spec.Token)
	answer, is, err := o.authenticator.AuthenticateRequest(request)
	if err != nil {
		review.Status.Error = err.Error()
	}
	if is && err == nil && answer.User.GetName() != user.Anonymous {
		review.Status.Authenticated, review.Status.Audiences = true, review.Spec.Audiences
		review.Status.User = authenticationv1.UserInfo{
			Username: answer.User.GetName(), UID: answer.User.GetUID(), Groups: answer.User.GetGroups(),
		}
		for key, values := range answer.User.GetExtra() {
			if review.Status.User.Extra == nil {
				review.Status.User.Extra = map[string]authenticationv1.ExtraValue{}
			}
			review.Status.User.Extra[key] = values
		}
	}
	return json.NewEncoder(w).Encode(review)
}

// reviewAccess asks the authorizer what a SubjectAccessReview asks.
func (o *outside) reviewAccess(w http.ResponseWriter, r *http.Request) error {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return err
	}
	caller := &user.DefaultInfo{Name: review.Spec.User, UID: review.Spec.UID, Groups: review.Spec.Groups}
	for key, values := range review.Spec.Extra {
		if caller.Extra == nil {
			caller.Extra = map[string][]string{}
		}
		caller.Extra[key] = values
	}
	asked := authorizer.AttributesRecord{User: caller}
	if of := review.Spec.ResourceAttributes; of != nil {
		asked.Verb, asked.Namespace, asked.Name, asked.ResourceRequest = of.Verb, of.Namespace, of.Name, true
		asked.APIGroup, asked.APIVersion, asked.Resource, asked.Subresource = of.Group, of.Version, of.Resource, of.Subresource
	} else if of := review.Spec.NonResourceAttributes; of != nil {
		asked.Verb, asked.Path = of.Verb, of.Path
	}
	decision, reason, err := o.authorizer.Authorize(r.Context(), asked)
	review.Status.Allowed = decision == authorizer.DecisionAllow
	review.Status.Denied = decision == authorizer.DecisionDeny
	review.Status.Reason = reason
	if err != nil {
		review.Status.EvaluationError = err.Error()
	}
	return json.NewEncoder(w).Encode(review)
}
