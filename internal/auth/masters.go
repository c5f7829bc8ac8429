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
func (m MastersOnly) Authorize(ctx context.Context, u user.Info, a Attributes) error {
	if m.Decide(ctx, u, a).Allowed {
		return nil
	}
	return Refused(u, a, "")
}

// Decide implements Authorizer.
func (MastersOnly) Decide(_ context.Context, u user.Info, a Attributes) Decision {
	if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return Decision{Allowed: true}
	}
	if isAuthenticated(u) && a.Verb == "create" && a.Subresource == "" && a.Path == "" &&
		slices.Contains(selfReviews(), a.Resource) {
		return Decision{Allowed: true}
	}
	return Decision{Reason: func() string { return "only members of " + user.SystemPrivilegedGroup + " may do this" }}
}

// Rules implements Authorizer.
func (MastersOnly) Rules(_ context.Context, u user.Info, _ string) (Rules, error) {
	if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return everything(), nil
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

func everything() Rules {
	all := []string{"*"}
	return Rules{
		Resources: []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		Paths:     []authorizationv1.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}
}

// AlwaysAllow allows everything to everybody who is known.
type AlwaysAllow struct{}

// Authorize implements Authorizer.
func (AlwaysAllow) Authorize(context.Context, user.Info, Attributes) error { return nil }

// Decide implements Authorizer.
func (AlwaysAllow) Decide(context.Context, user.Info, Attributes) Decision {
	return Decision{Allowed: true}
}

// Rules implements Authorizer.
func (AlwaysAllow) Rules(context.Context, user.Info, string) (Rules, error) { return everything(), nil }
