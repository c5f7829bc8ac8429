// Package review answers reviews of who a user is, and what a user may do: the kinds of
// authentication.k8s.io and authorization.k8s.io.
//
// It has one noun. A [Request] is one review. The answers are those of the
// auth.Authorizer that the server enforces.
package review

import (
	"context"
	"encoding/json"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Tokens answers reviews and requests of tokens.
type Tokens interface {
	// Review returns whose token it is, and for which of the audiences; without any, for those
	// of the server. Who has no valid token is nil; the error says why, if it is known.
	Review(ctx context.Context, token string, audiences []string) (user.Info, []string, error)
	// Issue fills in a request for a token of a service account. Errors: those of kube.StatusOf.
	Issue(account kube.Key, req *authenticationv1.TokenRequest) error
}

// Request is a review; its user is the target's caller. The target of a TokenRequest is the service
// account.
type Request struct {
	Authorizer      auth.Authorizer
	Tokens          Tokens // nil: there are none
	Target          schema.Target
	Body            []byte // JSON
	FieldValidation string
}

// Answers reports whether the objects of a resource are reviews.
func Answers(r *schema.Resource) bool {
	return r.Group == "authentication.k8s.io" || r.Group == "authorization.k8s.io"
}

// Answer returns the review with its status. Errors: 400, 422.
func Answer(ctx context.Context, r Request) (kube.Written, error) {
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
	case "TokenReview":
		answered, err = r.token(ctx, body)
	case "TokenRequest":
		answered, err = r.request(body)
	case "SelfSubjectAccessReview":
		answered, err = r.selfAccess(ctx, body)
	case "SelfSubjectRulesReview":
		answered, err = r.selfRules(ctx, body)
	case "SubjectAccessReview":
		answered, err = r.access(ctx, body)
	case "LocalSubjectAccessReview":
		answered, err = r.localAccess(ctx, body)
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
	review.Status.UserInfo = userInfo(r.Target.Caller)
	return review, nil
}

func userInfo(u user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	for name, values := range u.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[name] = values
	}
	return info
}

func (r Request) selfAccess(ctx context.Context, body []byte) (any, error) {
	review, err := read[authorizationv1.SelfSubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	wanted, err := r.attributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	if err != nil {
		return nil, err
	}
	review.Status = r.judge(ctx, r.Target.Caller, wanted)
	return review, nil
}

func (r Request) access(ctx context.Context, body []byte) (any, error) {
	review, err := read[authorizationv1.SubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	review.Status, err = r.judgeOther(ctx, review.Spec)
	return review, err
}

func (r Request) localAccess(ctx context.Context, body []byte) (any, error) {
	review, err := read[authorizationv1.LocalSubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	if a := review.Spec.ResourceAttributes; a == nil || a.Namespace != r.Target.Namespace {
		return nil, r.invalid(field.Invalid(field.NewPath("spec", "resourceAttributes", "namespace"), "", "must match metadata.namespace"))
	}
	review.Status, err = r.judgeOther(ctx, review.Spec)
	return review, err
}

func (r Request) selfRules(ctx context.Context, body []byte) (any, error) {
	review, err := read[authorizationv1.SelfSubjectRulesReview](body)
	if err != nil {
		return nil, err
	}
	if review.Spec.Namespace == "" {
		return nil, kube.BadRequest("no namespace on request")
	}
	rules, err := r.Authorizer.Rules(ctx, r.Target.Caller, review.Spec.Namespace)
	review.Status = authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    append([]authorizationv1.ResourceRule{}, rules.Resources...),
		NonResourceRules: append([]authorizationv1.NonResourceRule{}, rules.Paths...),
	}
	if err != nil {
		review.Status.Incomplete, review.Status.EvaluationError = true, err.Error()
	}
	return review, nil
}

// judgeOther decides for another user than the caller.
func (r Request) judgeOther(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	if spec.User == "" && len(spec.Groups) == 0 {
		return authorizationv1.SubjectAccessReviewStatus{}, r.invalid(field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	wanted, err := r.attributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	other := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: map[string][]string{}}
	for name, values := range spec.Extra {
		other.Extra[name] = values
	}
	return r.judge(ctx, other, wanted), nil
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
func (r Request) judge(ctx context.Context, u user.Info, wanted auth.Attributes) authorizationv1.SubjectAccessReviewStatus {
	if err := r.Authorizer.Authorize(ctx, u, wanted); err != nil {
		return authorizationv1.SubjectAccessReviewStatus{Reason: "only members of " + user.SystemPrivilegedGroup + " may do this; roles and bindings are stored, not enforced"}
	}
	return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
}
