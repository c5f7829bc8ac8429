// Package review answers reviews of who a user is, and what a user may do: the kinds of
// authentication.k8s.io and authorization.k8s.io.
//
// A [Request] is one review. The answers are those of the
// auth.Authorizer that the server enforces, in the words of kubernetes
// pkg/registry/authorization.
package review

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Tokens answers reviews and requests of tokens.
type Tokens interface {
	// Review returns whose token it is, and for which of the audiences; without any, for those
	// of the server. Who has no valid token is nil; the error says why, if it is known.
	Review(ctx context.Context, token string, audiences []string) (user.Info, []string, error)
	// Issue fills in a request for a token of a service account. Errors: those of wire.StatusOf.
	Issue(ctx context.Context, account wire.Key, req *authenticationv1.TokenRequest) error
}

// Request is a review; its user is the target's caller. The target of a TokenRequest is the service
// account.
type Request struct {
	Authorizer      auth.Authorizer
	Tokens          Tokens // nil: there are none
	Target          kinds.Target
	Body            []byte // JSON
	FieldValidation string
	// Ask asks admission plugins, which may change what was sent, and returns their warnings; nil: nobody is asked.
	Ask func(ctx context.Context, u *unstructured.Unstructured) ([]string, error)
}

// Answers reports whether the objects of a resource are reviews.
func Answers(r *kinds.Resource) bool {
	return !r.Custom && (r.Group == "authentication.k8s.io" || r.Group == "authorization.k8s.io")
}

// Answer returns the review with its status. Errors: 400, 422.
func Answer(ctx context.Context, r Request) (wire.Written, error) {
	u, warnings, err := r.Target.Resource.Type.Decode(r.Body, kinds.FieldValidation(r.FieldValidation))
	if err != nil {
		return wire.Written{}, err
	}
	if r.Ask != nil {
		said, err := r.Ask(ctx, u)
		if warnings = append(warnings, said...); err != nil {
			return wire.Written{Warnings: warnings}, err
		}
	}
	out, err := r.answer(ctx, u)
	out.Warnings = warnings
	return out, err
}

// answer returns the decoded review with its status.
func (r Request) answer(ctx context.Context, u *unstructured.Unstructured) (wire.Written, error) {
	body, err := json.Marshal(u.Object)
	if err != nil {
		return wire.Written{}, wire.Internal(err)
	}
	var answered any
	switch kind := r.Target.Resource.Kind; kind {
	case "SelfSubjectReview":
		answered, err = r.self(body)
	case "TokenReview":
		answered, err = r.token(ctx, body)
	case "TokenRequest":
		answered, err = r.request(ctx, body)
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
		return wire.Written{}, err
	}
	raw, err := json.Marshal(answered)
	if err != nil {
		return wire.Written{}, wire.Internal(err)
	}
	object, err := wire.ParseObject(raw, nil)
	if err != nil {
		return wire.Written{}, wire.Internal(err)
	}
	return wire.Written{Object: object, Created: true}, nil
}

// read decodes a review, which was decoded before.
func read[T any](body []byte) (*T, error) {
	review := new(T)
	if err := json.Unmarshal(body, review); err != nil {
		return nil, wire.BadRequest("%v", err)
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
	w := wish{review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes}
	if errs := append(w.check(), checkMetadata(&review.ObjectMeta, "must be empty")...); len(errs) > 0 {
		return nil, r.invalid(errs)
	}
	review.Status = r.judge(ctx, r.Target.Caller, w)
	return review, nil
}

func (r Request) access(ctx context.Context, body []byte) (any, error) {
	review, err := read[authorizationv1.SubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	if errs := append(checkSubject(&review.Spec), checkMetadata(&review.ObjectMeta, "must be empty")...); len(errs) > 0 {
		return nil, r.invalid(errs)
	}
	review.Status = r.judgeOther(ctx, &review.Spec)
	return review, nil
}

func (r Request) localAccess(ctx context.Context, body []byte) (any, error) {
	review, err := read[authorizationv1.LocalSubjectAccessReview](body)
	if err != nil {
		return nil, err
	}
	switch review.Namespace {
	case r.Target.Namespace:
	case "":
		review.Namespace = r.Target.Namespace
	default:
		return nil, wire.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	meta := review.ObjectMeta
	meta.Namespace = ""
	errs := append(checkSubject(&review.Spec), checkMetadata(&meta, "must be empty except for namespace")...)
	if a := review.Spec.ResourceAttributes; a != nil && a.Namespace != review.Namespace {
		errs = append(errs,
			field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := review.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), a, "disallowed on this kind of request"))
	}
	if len(errs) > 0 {
		return nil, r.invalid(errs)
	}
	review.Status = r.judgeOther(ctx, &review.Spec)
	return review, nil
}

func (r Request) selfRules(ctx context.Context, body []byte) (any, error) {
	review, err := read[authorizationv1.SelfSubjectRulesReview](body)
	if err != nil {
		return nil, err
	}
	if review.Spec.Namespace == "" {
		return nil, wire.BadRequest("no namespace on request")
	}
	rules, err := r.Authorizer.Rules(ctx, r.Target.Caller, review.Spec.Namespace)
	review.Status = authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    append([]authorizationv1.ResourceRule{}, rules.Resources...),
		NonResourceRules: append([]authorizationv1.NonResourceRule{}, rules.Paths...),
		Incomplete:       rules.Incomplete,
	}
	if err != nil {
		review.Status.EvaluationError = err.Error() // of missing roles; the rules are complete, as upstream's
	}
	return review, nil
}

// judgeOther decides for another user than the caller.
func (r Request) judgeOther(ctx context.Context,
	spec *authorizationv1.SubjectAccessReviewSpec,
) authorizationv1.SubjectAccessReviewStatus {
	other := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups, Extra: map[string][]string{}}
	for name, values := range spec.Extra {
		other.Extra[name] = values
	}
	return r.judge(ctx, other, wish{spec.ResourceAttributes, spec.NonResourceAttributes})
}

func (r Request) invalid(errs field.ErrorList) error {
	return wire.Invalid(r.Target.Resource.GVK().GroupKind(), "", errs)
}

// judge decides as the server does for requests.
func (r Request) judge(ctx context.Context, u user.Info, w wish) authorizationv1.SubjectAccessReviewStatus {
	wanted, ignored := w.attributes()
	d := r.Authorizer.Decide(ctx, u, wanted)
	if d.Failure != nil {
		ignored = strings.TrimSuffix(d.Failure.Error()+"; "+ignored, "; ")
	}
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: d.Allowed, Denied: d.Denied, Reason: d.Why(), EvaluationError: ignored,
	}
}
