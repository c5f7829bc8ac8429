package auth

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// MastersOnly is the simple rule: members of system:masters may do everything, others may only ask
// who they are and what they may do.
type MastersOnly struct{}

// selfReviews are the reviews that every authenticated user may create: who they are and
// what they may do (Kubernetes' role system:basic-user).
func selfReviews() []schema.GroupResource {
	return []schema.GroupResource{
		{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"},
		{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"},
	}
}

// isAuthenticated is false for system:anonymous, and for who impersonates one.
func isAuthenticated(u user.Info) bool { return slices.Contains(u.GetGroups(), user.AllAuthenticated) }

// Authorize implements Authorizer.
func (MastersOnly) Authorize(_ context.Context, u user.Info, a Attributes) error {
	if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	if isAuthenticated(u) && a.Verb == "create" && a.Subresource == "" && a.Path == "" && slices.Contains(selfReviews(), a.Resource) {
		return nil
	}
	return Refused(u, a, "")
}

// Rules implements Authorizer.
func (MastersOnly) Rules(_ context.Context, u user.Info, _ string) (Rules, error) {
	everything := []string{"*"}
	if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return Rules{
			Resources: []authorizationv1.ResourceRule{{Verbs: everything, APIGroups: everything, Resources: everything}},
			Paths:     []authorizationv1.NonResourceRule{{Verbs: everything, NonResourceURLs: everything}},
		}, nil
	}
	var rules Rules
	if !isAuthenticated(u) {
		return rules, nil
	}
	for _, gr := range selfReviews() {
		rules.Resources = append(rules.Resources, authorizationv1.ResourceRule{
			Verbs: []string{"create"}, APIGroups: []string{gr.Group}, Resources: []string{gr.Resource},
		})
	}
	return rules, nil
}
