package authn

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// keptTokens bounds how many verified tokens are kept, in each of two generations: about 2 KiB each.
	keptTokens = 4096
	// longestKept is the length of the longest that is kept: who may request tokens, with as many
	// audiences as he likes, must not fill the memory with them.
	longestKept = 8 << 10
)

// Objects are the current objects, in memory.
type Objects interface {
	// Find returns an object in the version in which it is stored; nil if there is none.
	Find(gr schema.GroupResource, key wire.Key) *wire.Object
}

// AccountsConfig configures Accounts. Keys, Issuers, Audiences and Objects are required.
type AccountsConfig struct {
	Keys *Keys
	// Issuers are those whose tokens are taken; the first one issues them.
	Issuers []string
	// Audiences are those of this server: of a token that is requested without any, and of
	// which a token for this server must have one.
	Audiences []string
	Objects   Objects
	// MaxExpiration bounds how long tokens that are issued are valid; 0: it does not.
	MaxExpiration time.Duration
	// FixedExpiration is for tokens of pods that a kubelet requests: they are not valid for longer than they say.
	FixedExpiration bool
}

// Accounts issue tokens of service accounts, and verify them. They are safe for concurrent use.
type Accounts struct {
	cfg AccountsConfig

	// mu guards fresh and old: the tokens whose signature was verified, by their hash. When fresh
	// is full it becomes old, and what old still has moves to fresh when it is used.
	mu         sync.RWMutex
	fresh, old map[[sha256.Size]byte]*verified
}

// verified is a token with a valid signature.
type verified struct {
	claims *claims
	// here is the answer for a request to this server; nil if the token is for others.
	here *authenticator.Response
}

// NewAccounts returns Accounts.
func NewAccounts(cfg AccountsConfig) *Accounts { return &Accounts{cfg: cfg} }

// AuthenticateToken implements authenticator.Token. A token's signature is verified once, as far as
// memory for it goes; its times and its objects are checked each time, so that a token whose account,
// Pod, Secret or Node is gone is refused from the next request on.
func (a *Accounts) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	v, err := a.verified(token)
	if errors.Is(err, errForeign) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	response := v.here
	if requested, given := authenticator.AudiencesFrom(ctx); given {
		response = v.claims.response(requested, a.cfg.Audiences)
	}
	if response == nil {
		return nil, false, fmt.Errorf("token audiences %q is invalid for the target audiences %q",
			v.claims.Audience, a.cfg.Audiences)
	}
	now := time.Now()
	if err := inTime(v.claims, now); err != nil {
		return nil, false, err
	}
	if err := a.alive(&v.claims.Kubernetes, now); err != nil {
		return nil, false, err
	}
	return response, true, nil
}

// response returns the answer for requested audiences; nil if the token has none of them. A token
// without audiences is for the server's own.
func (c *claims) response(requested, own authenticator.Audiences) *authenticator.Response {
	audiences := authenticator.Audiences(c.Audience)
	if len(audiences) == 0 {
		audiences = own
	}
	if audiences = audiences.Intersect(requested); len(audiences) == 0 {
		return nil
	}
	return &authenticator.Response{User: c.user(), Audiences: audiences}
}

func (a *Accounts) verified(token string) (*verified, error) {
	hash := sha256.Sum256([]byte(token))
	a.mu.RLock()
	v, isFresh := a.fresh[hash]
	if v == nil {
		v = a.old[hash]
	}
	a.mu.RUnlock()
	if isFresh {
		return v, nil
	}
	if v == nil {
		c, err := a.cfg.Keys.verify(token, a.cfg.Issuers)
		if err != nil {
			return nil, err
		}
		v = &verified{c, c.response(a.cfg.Audiences, a.cfg.Audiences)}
	}
	if len(token) > longestKept {
		return v, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fresh == nil || len(a.fresh) >= keptTokens {
		a.old, a.fresh = a.fresh, map[[sha256.Size]byte]*verified{}
	}
	a.fresh[hash] = v
	return v, nil
}

// inTime returns why a token does not count now; as upstream with a minute's leeway for clocks.
func inTime(c *claims, now time.Time) error {
	switch err := c.Validate(jwt.Expected{Time: now}); {
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	default:
		return err
	}
}

// The resources that tokens are bound to.
func accounts() schema.GroupResource { return schema.GroupResource{Resource: "serviceaccounts"} }
func pods() schema.GroupResource     { return schema.GroupResource{Resource: "pods"} }
func secrets() schema.GroupResource  { return schema.GroupResource{Resource: "secrets"} }
func nodes() schema.GroupResource    { return schema.GroupResource{Resource: "nodes"} }

// alive returns why the objects of a token make it invalid. The texts are upstream's, which a
// TokenReview shows.
func (a *Accounts) alive(c *kubernetesClaims, now time.Time) error {
	if c.Validating != nil || c.Mutating != nil {
		return errors.New("the token is bound to a webhook configuration, which is not supported")
	}
	account := a.cfg.Objects.Find(accounts(), wire.Key{Namespace: c.Namespace, Name: c.Account.Name})
	switch {
	case account == nil:
		return wire.NotFound(accounts(), c.Account.Name)
	case string(account.UID()) != c.Account.UID:
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", account.UID(), c.Account.UID)
	case isGone(account, now):
		return fmt.Errorf("service account %s/%s has been deleted", c.Namespace, c.Account.Name)
	}
	node := c.Node
	if c.Pod != nil {
		node = nil // it is information about the pod
	}
	for _, bound := range []struct {
		kind      string
		gr        schema.GroupResource
		namespace string
		to        *reference
	}{
		{"secret", secrets(), c.Namespace, c.Secret},
		{"pod", pods(), c.Namespace, c.Pod},
		{"node", nodes(), "", node},
	} {
		if bound.to == nil {
			continue
		}
		object := a.cfg.Objects.Find(bound.gr, wire.Key{Namespace: bound.namespace, Name: bound.to.Name})
		switch {
		case object == nil || isGone(object, now):
			return errors.New("service account token has been invalidated")
		case string(object.UID()) != bound.to.UID:
			return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)",
				bound.kind, object.UID(), bound.kind, bound.to.UID)
		}
	}
	return nil
}

// isGone reports whether an object should have been deleted by now, with a leeway as for times in
// tokens: a pod has its grace period, in which its token still works.
func isGone(o *wire.Object, now time.Time) bool {
	if !o.Deleting() {
		return false
	}
	var decoded metav1.PartialObjectMetadata
	if err := json.Unmarshal(o.JSON(), &decoded); err != nil || decoded.DeletionTimestamp == nil {
		return true
	}
	return decoded.DeletionTimestamp.Time.Before(now.Add(-jwt.DefaultLeeway))
}
