package admission

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

// Authorizer makes an authorizer of the server one of upstream's, which expressions have as
// the variable "authorizer". Who may not do something is not denied it for ever: no other
// authorizer is asked here, but upstream's says the same (plugin/pkg/auth/authorizer/rbac).
func Authorizer(from auth.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		asked := auth.Attributes{Verb: a.GetVerb(), Path: a.GetPath()}
		if a.IsResourceRequest() {
			asked = auth.Attributes{
				Verb: a.GetVerb(), Resource: schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()},
				Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(),
			}
		}
		err := from.Authorize(ctx, a.GetUser(), asked)
		if err == nil {
			return authorizer.DecisionAllow, "", nil
		}
		if e, is := errors.AsType[*wire.StatusError](err); is && e.ErrStatus.Code == http.StatusForbidden {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return authorizer.DecisionNoOpinion, "", err
	})
}
