package admission

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gapless-io/gapless/internal/auth"
)

// Authorizer makes an authorizer of the server one of upstream's, which expressions have as
// the variable "authorizer".
func Authorizer(from auth.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		d := from.Decide(ctx, a.GetUser(), auth.FromUpstream(a))
		switch {
		case d.Allowed:
			return authorizer.DecisionAllow, d.Why(), nil
		case d.Denied:
			return authorizer.DecisionDeny, d.Why(), d.Failure
		case d.Refusal != nil:
			return authorizer.DecisionNoOpinion, "", d.Refusal
		}
		return authorizer.DecisionNoOpinion, d.Why(), d.Failure
	})
}
