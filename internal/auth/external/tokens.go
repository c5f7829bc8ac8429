package external

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	tokencache "k8s.io/apiserver/pkg/authentication/token/cache"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
)

const (
	// knownFor is how long a token that was found good is not looked at again (kubernetes options/authentication.go
	// TokenSuccessCacheTTL). Up to 131 072 tokens are kept.
	knownFor = 10 * time.Second
	// installWithin is how long it is waited for new issuers of a file (kubernetes UpdateAuthenticationConfigTimeout).
	installWithin = time.Minute
	// retireAfter is for how long replaced issuers go on for requests that are under way.
	retireAfter = time.Minute
)

// Tokens identify callers by tokens that others have issued. They are safe for concurrent use.
type Tokens struct {
	cfg     Config
	started settings // what was read at the start
	webhook authenticator.Token
	cached  authenticator.Token
	current atomic.Pointer[issuers]
}

// Read checks a configuration. It asks nobody: an issuer or a webhook that is away does not matter. Without an issuer, a
// file and a webhook there are no Tokens: nil.
func Read(cfg Config) (*Tokens, error) {
	s, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	t := &Tokens{cfg: cfg, started: s}
	if t.webhook, err = cfg.Webhook.authenticator(cfg.Audiences); err != nil {
		return nil, err
	}
	if cfg.File == "" && len(s.issuers) == 0 && t.webhook == nil {
		return nil, nil //nolint:nilnil // the documentation says so
	}
	t.current.Store(&issuers{})
	t.cached = tokencache.New(authenticator.TokenFunc(t.ask), true, knownFor, 0)
	return t, nil
}

// Anonymous returns what the file says about requests without credentials; nil: nothing.
func (t *Tokens) Anonymous() *apiserver.AnonymousAuthConfig {
	if t == nil {
		return nil
	}
	return t.started.anonymous
}

// AuthenticateToken implements authenticator.Token. It may wait for an issuer or the webhook, and ends with ctx.
func (t *Tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if _, given := authenticator.AudiencesFrom(ctx); !given && len(t.cfg.Audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, t.cfg.Audiences)
	}
	response, known, err := t.cached.AuthenticateToken(ctx, token)
	if !known || err != nil {
		return nil, false, err
	}
	own := *response // its reader may write to it
	return &own, true, nil
}

// ask asks the issuers, and then the webhook.
func (t *Tokens) ask(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	all := []authenticator.Token{t.current.Load()}
	if t.webhook != nil {
		all = append(all, t.webhook)
	}
	response, known, err := tokenunion.New(all...).AuthenticateToken(ctx, token)
	if !known || err != nil {
		return nil, false, err
	}
	own := *response // the webhook's cache has it too
	own.User = authn.Authenticated(own.User)
	return &own, true, nil
}

// Start begins to ask the issuers for their keys. What it starts ends with ctx.
func (t *Tokens) Start(ctx context.Context) error {
	made, err := t.issuers(ctx, t.started)
	if err != nil {
		return err
	}
	t.current.Store(made)
	return nil
}

// Run follows the file, if there is one, until ctx ends. New issuers count when all of them have answered; until then, or
// if the file is wrong, the former ones do.
func (t *Tokens) Run(ctx context.Context) error {
	if t.cfg.File == "" {
		return nil
	}
	auth.Followed{
		Path: t.cfg.File, Taken: t.started.content, Logger: t.cfg.Logger, Reloads: t.cfg.Reloads,
		Take: func(ctx context.Context, content []byte) error { return t.replace(ctx, content) },
	}.Run(ctx)
	return nil
}

func (t *Tokens) replace(ctx context.Context, content []byte) error {
	s, err := t.cfg.parse(content)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(s.anonymous, t.started.anonymous) {
		return field.Forbidden(field.NewPath("anonymous"), "changed from initial configuration file")
	}
	made, err := t.issuers(ctx, s)
	if err != nil {
		return err
	}
	waiting, end := context.WithTimeout(ctx, installWithin)
	defer end()
	var why error
	err = wait.PollUntilContextCancel(waiting, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		why = made.ready()
		return why == nil, nil
	})
	if err != nil {
		made.end()
		return fmt.Errorf("%w; %w", errors.Join(why, err), auth.ErrMayPass)
	}
	former := t.current.Swap(made)
	if former.end != nil {
		time.AfterFunc(retireAfter, former.end)
	}
	return nil
}

// issuers are those of one configuration. Its zero value knows no tokens.
type issuers struct {
	tokens authenticator.Token
	checks []func() error
	end    context.CancelFunc
}

// issuers makes those of a configuration, which live until ctx ends.
func (t *Tokens) issuers(ctx context.Context, s settings) (_ *issuers, err error) {
	ctx, end := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			end()
		}
	}()
	made := &issuers{end: end}
	var all []authenticator.Token
	for _, one := range s.issuers {
		o := oidc.Options{
			JWTAuthenticator: one, SupportedSigningAlgs: s.algorithms, DisallowedIssuers: t.cfg.Disallowed,
		}
		if ca := one.Issuer.CertificateAuthority; ca != "" {
			o.CAContentProvider = authority(ca)
		}
		a, err := oidc.New(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("issuer %s: %w", one.Issuer.URL, err)
		}
		all = append(all, a)
		made.checks = append(made.checks, a.HealthCheck)
	}
	made.tokens = authenticator.WrapAudienceAgnosticToken(t.cfg.Audiences, tokenunion.NewFailOnError(all...))
	return made, nil
}

// authority is a CA in PEM, as package oidc wants it.
type authority string

// CurrentCABundleContent implements oidc.CAContentProvider.
func (a authority) CurrentCABundleContent() []byte { return []byte(a) }

// AuthenticateToken implements authenticator.Token.
func (i *issuers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if i.tokens == nil {
		return nil, false, nil
	}
	return i.tokens.AuthenticateToken(ctx, token)
}

// ready returns nil when the keys of all issuers are there.
func (i *issuers) ready() error {
	var errs []error
	for _, check := range i.checks {
		if err := check(); err != nil {
			errs = append(errs, err)
		}
	}
	return utilerrors.NewAggregate(errs)
}

// authenticator returns what asks the webhook; nil without one.
func (w Webhook) authenticator(audiences []string) (authenticator.Token, error) {
	if w.ConfigFile == "" {
		return nil, nil //nolint:nilnil // the documentation says so
	}
	client, err := webhookutil.LoadKubeconfig(w.ConfigFile, nil)
	if err != nil {
		return nil, fmt.Errorf("authentication-token-webhook-config-file %s: %w", w.ConfigFile, err)
	}
	hook, err := webhook.New(client, w.Version, audiences, *webhook.DefaultRetryBackoff())
	if err != nil {
		return nil, fmt.Errorf("authentication-token-webhook-config-file %s, -version %q: %w", w.ConfigFile, w.Version, err)
	}
	return tokencache.New(hook, false, w.CacheTTL, w.CacheTTL), nil
}
