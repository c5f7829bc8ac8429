package review

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

const noTokens = "this server issues and takes no tokens"

// token answers a TokenReview, as upstream's registry/authentication/tokenreview.
func (r Request) token(ctx context.Context, body []byte) (any, error) {
	review, err := read[authenticationv1.TokenReview](body)
	if err != nil {
		return nil, err
	}
	if review.Spec.Token == "" {
		return nil, wire.BadRequest("token is required for TokenReview in authentication")
	}
	if r.Tokens == nil {
		return nil, wire.NotServed(r.Target.Resource.GR(), "", noTokens)
	}
	review.Status = authenticationv1.TokenReviewStatus{}
	u, audiences, err := r.Tokens.Review(ctx, review.Spec.Token, review.Spec.Audiences)
	if err != nil {
		review.Status.Error = err.Error()
	}
	if u != nil {
		review.Status.Authenticated, review.Status.User, review.Status.Audiences = true, userInfo(u), audiences
	}
	return review, nil
}

// request answers a TokenRequest.
func (r Request) request(ctx context.Context, body []byte) (any, error) {
	request, err := read[authenticationv1.TokenRequest](body)
	if err != nil {
		return nil, err
	}
	if r.Tokens == nil {
		return nil, wire.NotServed(r.Target.Resource.GR(), r.Target.Name, noTokens)
	}
	return request, r.Tokens.Issue(ctx, wire.Key{Namespace: r.Target.Namespace, Name: r.Target.Name}, request)
}
