// Package review answers reviews of who a user is, and what a user may do: the kinds of
// authentication.k8s.io and authorization.k8s.io.
//
// It has one noun. A [Request] is one review. The answers are those of auth.Authorize,
// which the server enforces.
package review

import (
	"encoding/json"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Request is a review and its user.
type Request struct {
	User            auth.User
	Target          schema.Target
	Body            []byte // JSON
	FieldValidation string
}

// Answers reports whether the objects of a resource are reviews.
func Answers(r *schema.Resource) bool {
	return r.Group == "authentication.k8s.io" || r.Group == "authorization.k8s.io"
}

// Answer returns the review with its status. Errors: 400, 422.
func Answer(r Request) (kube.Written, error) {
	u, warnings, err := r.Target.Resource.Type.Decode(r.Body, schema.FieldValidation(r.FieldValidation))
	if err != nil {
		return kube.Written{}, err
	}
	body, err := json.Marshal(u.Object)
	if err != nil {
		return kube.Written{}, kube.Internal(err)
	}
	var answered any
	switch kind := r.Target.Resource.Kind; kind {
	case "SelfSubjectReview":
		answered, err = r.self(body)
	case "SelfSubjectAccessReview":
		answered, err = r.selfAccess(body)
	case "SelfSubjectRulesReview":
		answered, err = r.selfRules(body)
	case "SubjectAccessReview":
		answered, err = r.access(body)
	case "LocalSubjectAccessReview":
		answered, err = r.localAccess(body)
	default:
		err = fmt.Errorf("unknown review %s", kind)
	}
	if err != nil {
		return kube.Written{}, err
	}
	raw, err := json.Marshal(answered)
	if err != nil {
		return kube.Written{}, kube.Internal(err)
	}
	object, err := kube.ParseObject(raw, nil)
	if err != nil {
		return kube.Written{}, kube.Internal(err)
	}
	return kube.Written{Object: object, Created: true, Warnings: warnings}, nil
}

// read decodes a review, which was decoded before.
func read[T any](body []byte) (*T, error) {
	review := new(T)
	if err := json.Unmarshal(body, review); err != nil {
		return nil, kube.BadRequest("%v", err)
	}
	return review, nil
}

func (r Request) self(body []byte) (any, error) {
	review, err := read[authenticationv1.SelfSubjectReview](body)
	if err != nil {
		return nil, err
	}
	review.CreationTimestamp = metav1.Now() // as upstream, where no other review has one
	review.Status.UserInfo = authenticationv1.UserInfo{Username: r.User.Name, Groups: groups(r.User)}
	return review, nil
}

// groups returns the groups of an authenticated user.
func groups(u auth.User) []string {
	const authenticated = "system:authenticated"
	if slices.Contains(u.Groups, authenticated) {
		return u.Groups
	}
	return append(slices.Clone(u.Groups), authenticated)
}

func (r Request) selfAccess(body []byte) (any, error) {
	review, err := read[authorizationv1.SelfSubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	wanted, err := r.attributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	if err != nil {
		return nil, err
	}
	review.Status = judge(r.User, wanted)
	return review, nil
}

func (r Request) access(body []byte) (any, error) {
	review, err := read[authorizationv1.SubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	review.Status, err = r.judgeOther(review.Spec)
	return review, err
}

func (r Request) localAccess(body []byte) (any, error) {
	review, err := read[authorizationv1.LocalSubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	if a := review.Spec.ResourceAttributes; a == nil || a.Namespace != r.Target.Namespace {
		return nil, r.invalid(field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), "", "must match metadata.namespace"))
	}
	review.Status, err = r.judgeOther(review.Spec)
	return review, err
}

func (r Request) selfRules(body []byte) (any, error) {
	review, err := read[authorizationv1.SelfSubjectRulesReview](body)
	if err != nil {
		return nil, err
	}
	if review.Spec.Namespace == "" {
		return nil, kube.BadRequest("no namespace on request")
	}
	s := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	everything := []string{"*"}
	if auth.Authorize(r.User, auth.Attributes{Verb: "*", Resource: schema.GroupResource{Group: "*", Resource: "*"}}) == nil {
		s.ResourceRules = append(s.ResourceRules, authorizationv1.ResourceRule{Verbs: everything, APIGroups: everything, Resources: everything})
		s.NonResourceRules = append(s.NonResourceRules, authorizationv1.NonResourceRule{Verbs: everything, NonResourceURLs: everything})
	} else {
		for _, gr := range auth.SelfReviews() {
			s.ResourceRules = append(s.ResourceRules, authorizationv1.ResourceRule{
				Verbs: []string{"create"}, APIGroups: []string{gr.Group}, Resources: []string{gr.Resource},
			})
		}
	}
	review.Status = s
	return review, nil
}

// judgeOther decides for another user than the caller.
func (r Request) judgeOther(spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	if spec.User == "" && len(spec.Groups) == 0 {
		return authorizationv1.SubjectAccessReviewStatus{}, r.invalid(field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	wanted, err := r.attributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return judge(auth.User{Name: spec.User, Groups: spec.Groups}, wanted), nil
}

// attributes returns the attributes that a review names: exactly one of the two.
func (r Request) attributes(resource *authorizationv1.ResourceAttributes, other *authorizationv1.NonResourceAttributes) (auth.Attributes, error) {
	switch {
	case resource != nil && other != nil:
		return auth.Attributes{}, r.invalid(field.Invalid(field.NewPath("spec", "nonResourceAttributes"), "", "cannot be specified in combination with resourceAttributes"))
	case resource != nil:
		return auth.Attributes{
			Verb: resource.Verb, Resource: schema.GroupResource{Group: resource.Group, Resource: resource.Resource},
			Subresource: resource.Subresource, Namespace: resource.Namespace, Name: resource.Name,
		}, nil
	case other != nil:
		return auth.Attributes{Verb: other.Verb, Path: other.Path}, nil
	}
	return auth.Attributes{}, r.invalid(field.Invalid(field.NewPath("spec", "resourceAttributes"), "", "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
}

func (r Request) invalid(why *field.Error) error {
	return kube.Invalid(r.Target.Resource.GVK().GroupKind(), "", field.ErrorList{why})
}

// judge decides as the server does for requests.
func judge(u auth.User, wanted auth.Attributes) authorizationv1.SubjectAccessReviewStatus {
	if err := auth.Authorize(u, wanted); err != nil {
		return authorizationv1.SubjectAccessReviewStatus{Reason: "only members of " + auth.Masters + " may do this; roles and bindings are stored, not enforced"}
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
}
