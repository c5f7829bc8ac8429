package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	// longestToken is upstream's bound on a header, in bytes: net/http's default.
	longestToken = 1 << 20
	// longestReview bounds an answer, which may have a user with thousands of groups.
	longestReview = 4 << 20
	// longestReason bounds what is kept of the reason of a decision.
	longestReason = 1 << 10
)

// reviews asks upstream by reviews, with the relay's credentials.
type reviews struct {
	*Access

	tokens   *memo[user.Info] // by the hash of the token
	callers  authenticator.Request
	refusals refusals
}

// refusals are those of the relay itself.
type refusals struct {
	mu sync.Mutex
	// mu guards since.
	since time.Time // the first one after the last review that was answered; zero: none
}

// look returns the error of a review. A refusal of the relay is 503 for a while, as from an upstream
// that is away.
func (r *refusals) look(err error, within time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcome := kube.Classify(err)
	if outcome == kube.OutcomeOK {
		r.since = time.Time{}
	}
	if outcome != kube.OutcomeUnauthorized && outcome != kube.OutcomeForbidden {
		return err // it says nothing of the relay
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	if time.Since(r.since) < within {
		return wire.Unavailable("upstream refuses the relay: "+err.Error(), time.Second)
	}
	return err
}

func newReviews(a *Access) *reviews {
	v := &reviews{Access: a, tokens: newMemo[user.Info](keptTokens, a.cfg, a.metrics.cached(kindToken))}
	v.callers = a.callers(authenticator.TokenFunc(v.token))
	return v
}

func (v *reviews) authenticate(r *http.Request) (user.Info, error) {
	response, known, err := v.callers.AuthenticateRequest(r)
	if !known {
		return nil, v.unknown(r.Context(), err)
	}
	r.Header.Del("Authorization") // also after a certificate, as upstream
	return response.User, nil
}

func (v *reviews) known(r *http.Request) (user.Info, error) { return v.authenticate(r) }

// token returns whose token it is. The error is 503.
func (v *reviews) token(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > longestToken || !utf8.ValidString(token) { // JSON would change it to another one
		return nil, false, nil
	}
	got, err := v.tokens.get(ctx, v.keyOf([]byte(token)), func(ctx context.Context) (answer[user.Info], error) {
		who, err := v.reviewToken(ctx, token)
		v.metrics.count(kindToken, who != nil, err)
		return answer[user.Info]{value: who, fresh: v.cfg.Allowed, end: expiry(token), forget: who == nil}, err
	})
	switch {
	case err != nil:
		return nil, false, unavailable(ctx, "whose token it is", err)
	case got.value == nil:
		return nil, false, nil
	}
	return &authenticator.Response{User: got.value}, true, nil
}

// reviewToken returns whose token it is; nil is nobody's.
func (v *reviews) reviewToken(ctx context.Context, token string) (user.Info, error) {
	var review authenticationv1.TokenReview
	err := v.create(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", &authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token},
	}, &review)
	if err != nil || !review.Status.Authenticated {
		return nil, err
	}
	info := review.Status.User
	if info.Username == "" {
		return nil, errors.New("a TokenReview names no user")
	}
	who := &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups}
	for name, values := range info.Extra {
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[name] = values
	}
	return who, nil
}

// question implements mode. The key is the hash of all that is sent.
func (v *reviews) question(u user.Info, a auth.Attributes) (question, error) {
	review := authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     authorizationv1.SubjectAccessReviewSpec{User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()},
	}
	for name, values := range u.GetExtra() {
		if review.Spec.Extra == nil {
			review.Spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		review.Spec.Extra[name] = values
	}
	if a.Path != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb}
	} else {
		review.Spec.ResourceAttributes = resourceAttributes(a)
	}
	body, err := json.Marshal(review)
	if err != nil {
		return question{}, wire.Internal(fmt.Errorf("encode a review: %w", err))
	}
	return question{key: v.keyOf(body), ask: func(ctx context.Context) (answer[verdict], error) {
		return v.reviewAccess(ctx, json.RawMessage(body))
	}}, nil
}

func resourceAttributes(a auth.Attributes) *authorizationv1.ResourceAttributes {
	out := &authorizationv1.ResourceAttributes{
		Namespace: a.Namespace, Verb: a.Verb, Group: a.Resource.Group, Version: a.Version,
		Resource: a.Resource.Resource, Subresource: a.Subresource, Name: a.Name,
	}
	// Upstream reads the text as it reads that of a request, and ignores what is wrong, as there.
	if a.FieldSelector != "" {
		out.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: a.FieldSelector}
	}
	if a.LabelSelector != "" {
		out.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: a.LabelSelector}
	}
	return out
}

func (v *reviews) reviewAccess(ctx context.Context, body json.RawMessage) (answer[verdict], error) {
	var review authorizationv1.SubjectAccessReview
	err := v.create(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", body, &review)
	status := review.Status
	allowed := status.Allowed && !status.Denied
	v.metrics.count(kindAccess, allowed, err)
	reason := status.Reason
	if len(reason) > longestReason {
		reason = strings.ToValidUTF8(reason[:longestReason], "")
	}
	fresh := v.cfg.Denied
	if allowed {
		fresh = v.cfg.Allowed
	}
	return answer[verdict]{value: verdict{allowed: allowed, reason: reason}, fresh: fresh}, err
}

// create sends a review and reads the answer.
func (v *reviews) create(ctx context.Context, path string, review, into any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("encode a review: %w", err)
	}
	resp, err := v.upstream.Do(ctx, client.Request{Method: http.MethodPost, Path: path, Body: body})
	if err = v.refusals.look(err, v.cfg.Refused); err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if err := json.NewDecoder(io.LimitReader(resp.Body, longestReview)).Decode(into); err != nil {
		return fmt.Errorf("read the answer to a review: %w", err)
	}
	return nil
}
