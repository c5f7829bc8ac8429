// Package authentication has the kinds of the group authentication.k8s.io: reviews of who a user is.
package authentication

import (
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "authentication.k8s.io", Version: "v1", Kind: "SelfSubjectReview", Cluster: true, Question: true,
		}, gokind.Rules[*authenticationv1.SelfSubjectReview]{}),
		gokind.Of(gokind.Row{
			Group: "authentication.k8s.io", Version: "v1", Kind: "TokenReview", Cluster: true, Question: true,
		}, gokind.Rules[*authenticationv1.TokenReview]{}),
	}
}
