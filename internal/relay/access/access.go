// Package access decides for a relay who its callers are and what they may read: as the API server
// that it stands in front of, upstream, decides.
//
// An [Access] asks upstream, keeps the answers for a while, and is both an
// auth.Authenticator and an auth.Authorizer. A [Grant] is the permission of an open watch, which ends
// when upstream withdraws it. A [ClientCA] is upstream's CA of client certificates.
//
// An answer is used for a stated time. A question that is being asked is not asked twice. When
// upstream cannot be reached, answers that are not older than Config.Stale are used, allowed ones as
// well as denied ones; where there is none, the request is refused with 503. No failure allows
// anything.
//
// memo.go keeps the answers, reviews.go and passthrough.go ask, grant.go has the permissions
// of open watches.
package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/relay/kept"
	"github.com/gapless-io/gapless/internal/wire"
)

// Mode says how upstream is asked.
type Mode string

// The modes.
const (
	// Reviews asks by TokenReview and SubjectAccessReview, which the relay must be allowed to create.
	Reviews Mode = "reviews"
	// Passthrough makes a small request with the credentials of the caller, and takes upstream's
	// answer for the decision. Only bearer tokens can be passed on, with the headers Impersonate-*
	// that come with them.
	Passthrough Mode = "passthrough"
)

const (
	// DefaultCache is how long decisions are used, for Config.Allowed and Config.Denied.
	DefaultCache = 10 * time.Second
	// DefaultStale is how long they are used when upstream cannot be reached.
	DefaultStale = 5 * time.Minute
	// DefaultRefused is for Config.Refused.
	DefaultRefused = 30 * time.Second
)

const (
	// keptTokens bounds how many tokens' users are kept, of about 1 KiB each.
	keptTokens = 8 << 10
	// keptDecisions bounds how many decisions are kept, of about 300 bytes each.
	keptDecisions = 32 << 10
)

// Config configures an Access.
type Config struct {
	Mode Mode // "" is Reviews
	// Upstream is the API server, with the relay's credentials, which Passthrough does not use.
	Upstream *rest.Config
	// Trusted reports whether a CA of client certificates counts now, such as ClientCA.Trusted. Nil:
	// the TLS layer has decided it, and nothing changes.
	Trusted func(ca *x509.Certificate) bool
	// Allowed and Denied are how long such decisions are used without asking again; Allowed is also
	// for whose token it is. 0 asks for each request.
	Allowed, Denied time.Duration
	// Stale is how long an answer is used when upstream cannot be reached; 0: not at all.
	Stale time.Duration
	// Refused is how long upstream counts as away if it refuses the relay itself, which says nothing
	// of a caller. kube-apiserver refuses everybody for a moment after its start, before it has read
	// the roles. After that time former answers are not used either. 0 is DefaultRefused.
	Refused time.Duration
	// Kept is where answers are kept for the next start; see Restore. The zero value keeps none.
	Kept   kept.File
	Logger *slog.Logger // nil discards
}

// Access asks upstream who callers are and what they may do. It is safe for concurrent use.
type Access struct {
	cfg       Config
	logger    *slog.Logger
	upstream  *client.Client
	metrics   metrics
	mode      mode
	certified *authn.Certificates
	decisions *memo[verdict]
	salt      []byte // of the keys of answers, which may be on the disk

	// mu guards watched.
	mu      sync.Mutex
	watched map[key]*watched
}

// mode is what differs between the modes.
type mode interface {
	// authenticate returns who sent a request, and removes the credentials from it. Errors: 401,
	// 403 and 503.
	authenticate(r *http.Request) (user.Info, error)
	// known is authenticate, but for a caller that upstream has accepted.
	known(r *http.Request) (user.Info, error)
	// question returns what is asked upstream. The error is the answer for who asks what cannot be
	// asked.
	question(u user.Info, a auth.Attributes) (question, error)
}

// question is what is asked about one user and request.
type question struct {
	key key
	ask func(context.Context) (answer[verdict], error)
}

// verdict is what upstream has decided.
type verdict struct {
	allowed bool
	reason  string
	refusal error // nil: 403 with the reason
}

// New returns an Access. It opens no connection and starts no goroutine.
func New(cfg Config) (*Access, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Refused == 0 {
		cfg.Refused = DefaultRefused
	}
	if cfg.Mode == "" {
		cfg.Mode = Reviews
	}
	a := &Access{cfg: cfg, logger: cfg.Logger, metrics: newMetrics(), watched: map[key]*watched{}, salt: newSalt()}
	as := cfg.Upstream
	if cfg.Mode == Passthrough {
		as = rest.AnonymousClientConfig(as)
	}
	var err error
	if a.upstream, err = client.New(as); err != nil {
		return nil, err
	}
	a.certified = authn.NewCertificates(cfg.Trusted)
	switch cfg.Mode {
	case Passthrough:
		a.mode = newPassthrough(a)
		a.decisions = newMemo[verdict](keptDecisions, cfg, a.metrics.cached(kindCredentials))
	case Reviews:
		a.mode = newReviews(a)
		a.decisions = newMemo[verdict](keptDecisions, cfg, a.metrics.cached(kindAccess))
	default:
		return nil, fmt.Errorf("access mode %q is unknown: want %s or %s", cfg.Mode, Reviews, Passthrough)
	}
	return a, nil
}

// CloseIdle closes the connections to upstream that no request uses.
func (a *Access) CloseIdle() { a.upstream.CloseIdle() }

// Authenticate implements auth.Authenticator: by a client certificate that the TLS layer has verified,
// by a bearer token, or by one among the subprotocols of a WebSocket, in upstream's order. Nobody is
// anonymous. It removes the token from the request. In Passthrough the user is a name made of the
// credentials, which upstream checks when it is asked what the user may do. Errors: 401; 403 for
// headers that name a user; 503 when upstream cannot say whose token it is.
func (a *Access) Authenticate(r *http.Request) (user.Info, error) {
	if err := auth.RefuseClaims(r.Header); err != nil {
		return nil, err
	}
	return a.mode.authenticate(r)
}

// Known is Authenticate, but in Passthrough only for callers that upstream has allowed to read a resource
// within Config.Stale; others are 503. It asks nobody then.
func (a *Access) Known(r *http.Request) (user.Info, error) {
	if err := auth.RefuseClaims(r.Header); err != nil {
		return nil, err
	}
	return a.mode.known(r)
}

// Certificate returns who sent a request by a client certificate, and nil for a request that has none,
// or one that does not count any more but a token. It changes nothing of the request. Errors: 401; in
// Passthrough 403 for who has nothing but a certificate.
func (a *Access) Certificate(r *http.Request) (user.Info, error) {
	certified, token := hasCertificate(r), bearerOf(r) != ""
	switch {
	case !certified || a.cfg.Mode == Passthrough && token:
		return nil, nil //nolint:nilnil // nobody is no error: the documentation says so
	case a.cfg.Mode == Passthrough:
		return nil, errNoCertificates()
	}
	response, known, err := a.certified.AuthenticateRequest(r)
	switch {
	case known:
		return response.User, nil
	case token:
		return nil, nil //nolint:nilnil // as above
	case err != nil:
		a.logger.LogAttrs(r.Context(), slog.LevelDebug, "a caller is not known", slog.Any("error", err))
	}
	return nil, wire.Unauthorized()
}

// Anonymous reports whether a request brings nothing by which its caller could be known here: no client
// certificate, and no bearer token. Upstream decides whether it answers such callers, and what.
func (*Access) Anonymous(r *http.Request) bool { return !hasCertificate(r) && bearerOf(r) == "" }

func hasCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// bearerOf returns the token of a request, in the header or among the subprotocols of a WebSocket; ""
// is none. It changes nothing.
func bearerOf(r *http.Request) string {
	token := ""
	look := authn.Bearer(authenticator.TokenFunc(func(_ context.Context, t string) (*authenticator.Response, bool, error) {
		token = t
		return nil, false, nil
	}))
	_, _, _ = look.AuthenticateRequest(r) // nobody is known, and a bad token is none
	return token
}

// callers returns an authenticator in upstream's order: certificates, then tokens.
func (a *Access) callers(token authenticator.Token) authenticator.Request {
	return union.New(a.certified, authn.Bearer(token))
}

// unknown returns the answer for a caller who is not known, with why.
func (a *Access) unknown(ctx context.Context, why error) error {
	if why == nil {
		return wire.Unauthorized()
	}
	a.logger.LogAttrs(ctx, slog.LevelDebug, "a caller is not known", slog.Any("error", why))
	all, is := errors.AsType[utilerrors.Aggregate](why)
	if !is {
		return wire.Unauthorized()
	}
	for _, one := range utilerrors.Flatten(all).Errors() { // it does not unwrap to its errors
		if status, is := errors.AsType[*wire.StatusError](one); is {
			return status
		}
	}
	return wire.Unauthorized()
}

// Authorize implements auth.Authorizer.
func (a *Access) Authorize(ctx context.Context, u user.Info, attributes auth.Attributes) error {
	return a.Decide(ctx, u, attributes).Err(u, attributes)
}

// Decide implements auth.Authorizer, by asking upstream.
func (a *Access) Decide(ctx context.Context, u user.Info, attributes auth.Attributes) auth.Decision {
	q, err := a.mode.question(u, attributes)
	if err != nil {
		return auth.Decision{Refusal: err}
	}
	got, err := a.decisions.get(ctx, q.key, q.ask)
	if err != nil {
		return auth.Decision{Refusal: unavailable(ctx, "what "+u.GetName()+" may do", err)}
	}
	return got.value.decision()
}

func (v verdict) decision() auth.Decision {
	return auth.Decision{Allowed: v.allowed, Reason: func() string { return v.reason }, Refusal: v.refusal}
}

// Rules implements auth.Authorizer. It only returns an error: upstream answers reviews of rules.
func (*Access) Rules(context.Context, user.Info, string) (auth.Rules, error) {
	return auth.Rules{}, errors.New("this relay knows no rules: ask the API server that it stands in front of")
}

// unavailable is the answer for a question that upstream did not answer: 503, with the reason.
func unavailable(ctx context.Context, asked string, why error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := wire.Unavailable(fmt.Sprintf("gapless relay: ask upstream %s: %v", asked, why), time.Second)
	e.Cause = why
	return e
}
