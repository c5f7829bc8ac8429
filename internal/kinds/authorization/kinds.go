// Package authorization has the kinds of the group authorization.k8s.io: reviews of what a user may do.
package authorization

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "authorization.k8s.io", Version: "v1", Kind: "LocalSubjectAccessReview", Question: true,
		}, gokind.Rules[*authorizationv1.LocalSubjectAccessReview]{}),
		gokind.Of(gokind.Row{
			Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview", Cluster: true, Question: true,
		}, gokind.Rules[*authorizationv1.SelfSubjectAccessReview]{}),
		gokind.Of(gokind.Row{
			Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectRulesReview", Cluster: true, Question: true,
		}, gokind.Rules[*authorizationv1.SelfSubjectRulesReview]{}),
		gokind.Of(gokind.Row{
			Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview", Cluster: true, Question: true,
		}, gokind.Rules[*authorizationv1.SubjectAccessReview]{}),
	}
}
