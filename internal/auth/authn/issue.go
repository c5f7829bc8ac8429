package authn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/wire"
)

// The bounds of spec.expirationSeconds, and its default: upstream's.
const (
	minExpiration     = 10 * 60
	maxExpiration     = 1 << 32
	defaultExpiration = 60 * 60
)

const (
	// kubeletExpiration is the expiration that kubelets request for the tokens of pods, in seconds. Programs that read
	// their token only once would fail after that hour, so such a token is valid for extendedExpiration, and says from
	// when on a renewed one would have been used (kubernetes pkg/serviceaccount/claims.go).
	kubeletExpiration  = 60*60 + 7
	extendedExpiration = 365 * 24 * 60 * 60
)

// Issue answers a TokenRequest for a service account: it fills in req, with the token in its status.
// The rules and texts are upstream's (registry/core/serviceaccount/storage/token.go). Errors: 400,
// 404, 409, 422.
func (a *Accounts) Issue(ctx context.Context, account wire.Key, req *authenticationv1.TokenRequest) error {
	kind := authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind()
	where := field.NewPath("metadata")
	if req.Name != "" && req.Name != account.Name {
		return wire.Invalid(kind, account.Name, field.ErrorList{
			field.Invalid(where.Child("name"), req.Name, "must match the service account name if specified"),
		})
	}
	if req.Namespace != "" && req.Namespace != account.Namespace {
		return wire.Invalid(kind, account.Name, field.ErrorList{
			field.Invalid(where.Child("namespace"), req.Namespace, "must match the service account namespace if specified"),
		})
	}
	object := a.cfg.Objects.Find(accounts(), account)
	if object == nil {
		return wire.NotFound(accounts(), account.Name)
	}
	if req.UID != "" && req.UID != object.UID() {
		return wire.Conflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, account.Name,
			fmt.Sprintf("the UID in the token request (%s) does not match the UID of the service account (%s)",
				req.UID, object.UID()))
	}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = a.cfg.Audiences
	}
	if req.Spec.ExpirationSeconds == nil {
		seconds := int64(defaultExpiration)
		req.Spec.ExpirationSeconds = &seconds
	}
	now := time.Now()
	req.Name, req.Namespace, req.UID = account.Name, account.Namespace, object.UID()
	req.CreationTimestamp = metav1.NewTime(now)
	req.Status = authenticationv1.TokenRequestStatus{}
	if errs := invalidRequest(&req.Spec); len(errs) > 0 {
		return wire.Invalid(kind, "", errs)
	}
	c := a.claimsFor(object, req.Spec, now)
	if ref := req.Spec.BoundObjectRef; ref != nil {
		if err := a.bind(&c.Kubernetes, *ref); err != nil {
			return err
		}
	}
	a.expire(ctx, &c, req, now)
	token, err := a.cfg.Keys.sign(c)
	if err != nil {
		return wire.Internal(err)
	}
	audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey, tokenjwt.CredentialIDForJTI(c.ID))
	req.Status = authenticationv1.TokenRequestStatus{
		Token:               token,
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(*req.Spec.ExpirationSeconds) * time.Second)),
	}
	return nil
}

// expire sets when a token ends.
func (a *Accounts) expire(ctx context.Context, c *claims, req *authenticationv1.TokenRequest, now time.Time) {
	seconds := *req.Spec.ExpirationSeconds
	if most := int64(a.cfg.MaxExpiration / time.Second); most > 0 && seconds > most {
		warning.AddWarning(ctx, "",
			fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", seconds, most))
		seconds = most
		req.Spec.ExpirationSeconds = &seconds
	}
	valid := seconds
	if !a.cfg.FixedExpiration && c.Kubernetes.Pod != nil && seconds == kubeletExpiration && a.onlyForHere(req.Spec.Audiences) {
		c.Kubernetes.WarnAfter = jwt.NewNumericDate(now.Add(time.Duration(seconds) * time.Second))
		valid = extendedExpiration
	}
	c.Expiry = jwt.NewNumericDate(now.Add(time.Duration(valid) * time.Second))
}

// onlyForHere reports whether audiences are those of this server.
func (a *Accounts) onlyForHere(audiences []string) bool {
	for _, audience := range audiences {
		if !slices.Contains(a.cfg.Audiences, audience) {
			return false
		}
	}
	return true
}

func invalidRequest(spec *authenticationv1.TokenRequestSpec) (errs field.ErrorList) {
	at := field.NewPath("spec")
	seconds := *spec.ExpirationSeconds
	if seconds < minExpiration {
		errs = append(errs,
			field.Invalid(at.Child("expirationSeconds"), seconds, "may not specify a duration less than 10 minutes"))
	}
	if seconds > maxExpiration {
		errs = append(errs,
			field.Invalid(at.Child("expirationSeconds"), seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(spec.Attestations) > 0 {
		errs = field.ErrorList{
			field.Invalid(at.Child("attestations"), spec.Attestations,
				"attestations may only be specified with a webhook bound object reference"),
		}
	}
	return errs
}

// claimsFor returns the claims of a token that is bound to the account only.
func (a *Accounts) claimsFor(account *wire.Object, spec authenticationv1.TokenRequestSpec, now time.Time) claims {
	key := account.Key()
	return claims{
		Claims: jwt.Claims{
			Issuer: a.cfg.Issuers[0], Subject: serviceaccount.MakeUsername(key.Namespace, key.Name),
			Audience: spec.Audiences, ID: string(uuid.NewUUID()),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
		},
		Kubernetes: kubernetesClaims{Namespace: key.Namespace, Account: reference{key.Name, string(account.UID())}},
	}
}

// bind adds the object that a token is bound to.
func (a *Accounts) bind(c *kubernetesClaims, ref authenticationv1.BoundObjectReference) error {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	var gr schema.GroupResource
	key := wire.Key{Namespace: c.Namespace, Name: ref.Name}
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		gr = pods()
	case schema.GroupKind{Kind: "Secret"}:
		gr = secrets()
	case schema.GroupKind{Kind: "Node"}:
		gr, key.Namespace = nodes(), ""
	default:
		return wire.BadRequest("cannot bind token to object of type %s", gvk.String())
	}
	object := a.cfg.Objects.Find(gr, key)
	if object == nil {
		return wire.NotFound(gr, ref.Name)
	}
	to := &reference{ref.Name, string(object.UID())}
	switch gr {
	case pods():
		c.Pod = to
		if err := a.ofPod(c, object); err != nil {
			return err
		}
	case secrets():
		c.Secret = to
	case nodes():
		c.Node = to
	}
	if ref.UID != "" && ref.UID != object.UID() {
		return wire.Conflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Sprintf(
				"the UID in the bound object reference (%s) does not match the UID in record. The object might have been "+
					"deleted and then recreated", ref.UID))
	}
	return nil
}

// ofPod checks that a pod runs as the account, and adds the node that it runs on. A node that does not exist
// is named without a UID.
func (a *Accounts) ofPod(c *kubernetesClaims, object *wire.Object) error {
	var pod corev1.Pod
	if err := json.Unmarshal(object.JSON(), &pod); err != nil {
		return wire.Internal(fmt.Errorf("decode pod %s: %w", object.Key().Name, err))
	}
	if pod.Spec.ServiceAccountName != c.Account.Name {
		return wire.BadRequest("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.",
			c.Account.Name)
	}
	if name := pod.Spec.NodeName; name != "" {
		var uid types.UID
		if node := a.cfg.Objects.Find(nodes(), wire.Key{Name: name}); node != nil {
			uid = node.UID()
		}
		c.Node = &reference{name, string(uid)}
	}
	return nil
}
