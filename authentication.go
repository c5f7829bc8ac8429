package gapless

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/auth/external"
	"github.com/gapless-io/gapless/internal/bootstrap"
)

// DefaultServiceAccountIssuer is the issuer of service account tokens, kubeadm's.
const DefaultServiceAccountIssuer = "https://kubernetes.default.svc.cluster.local"

// Authentication says how callers are identified, besides the client certificates of the server's own
// CA. Its members are kube-apiserver's flags; see docs/access.md.
type Authentication struct {
	// Anonymous makes requests without a certificate and without a token those of the user
	// system:anonymous, and the authorization decides what that user may do. Otherwise they are 401, except
	// for health checks and the version. It has no effect with AuthorizationAlwaysAllow, as upstream.
	Anonymous bool
	// PrivateHealth makes health checks and the version 401 as well, as kube-apiserver does with
	// --anonymous-auth=false; the authorization decides who else may see them.
	PrivateHealth bool
	// TokenAuthFile is a file of static tokens. It is read at the start.
	TokenAuthFile string
	// ClientCAFile has further CAs of client certificates. TLSCertFile and TLSPrivateKeyFile are a
	// serving certificate for the names and addresses that it is valid for, and its key. Changes of
	// these files are noticed within a minute.
	ClientCAFile      string
	TLSCertFile       string
	TLSPrivateKeyFile string
	// ServiceAccountIssuers are the issuers of service account tokens that are accepted; the first
	// one issues them. Nil means DefaultServiceAccountIssuer.
	ServiceAccountIssuers []string
	// ServiceAccountSigningKeyFile has the key that signs them; "" means pki/sa.key in the data
	// directory, which is made at the first start. ServiceAccountKeyFiles have further keys that may
	// have signed them.
	ServiceAccountSigningKeyFile string
	ServiceAccountKeyFiles       []string
	// ServiceAccountJWKSURI is where others get the public keys; "" means at the server's address.
	ServiceAccountJWKSURI string
	// APIAudiences are the audiences of this server: a token must be for one of them. Nil means the
	// issuers.
	APIAudiences []string
	// ServiceAccountMaxTokenExpiration is the longest time that a service account token is valid that is issued; 0: what is
	// asked for. At least an hour.
	ServiceAccountMaxTokenExpiration time.Duration
	// FixedTokenExpiration leaves the tokens of pods that kubelets request valid for the hour that they ask for. Otherwise
	// such a token is valid for a year, as upstream, and says from when on a renewed one should be in use.
	FixedTokenExpiration bool
	// BootstrapTokens makes the tokens of Secrets of the type bootstrap.kubernetes.io/token in kube-system those of users
	// of the group system:bootstrappers.
	BootstrapTokens bool
	// ConfigFile has an AuthenticationConfiguration of apiserver.config.k8s.io/v1: issuers of OpenID Connect tokens, and
	// which requests are anonymous. The issuers count anew when it changes.
	ConfigFile string
	// OIDC is an issuer instead of those of ConfigFile.
	OIDC OIDC
	// Webhook is asked about tokens that nobody else knows.
	Webhook TokenWebhook
	// FrontProxy names callers in headers.
	FrontProxy FrontProxy

	// anonymousPaths are the only ones of anonymous requests; nil: all.
	anonymousPaths []string
}

// OIDC is an issuer of OpenID Connect tokens, by kube-apiserver's flags --oidc-*; without IssuerURL there is none. It is
// no error when it is away: its tokens are unknown until it has told its keys.
type OIDC struct {
	IssuerURL, ClientID string
	// CAFile has the CAs of its certificate; "": those of the system.
	CAFile string
	// UsernameClaim is the claim with the user's name; "" means sub. UsernamePrefix stands before it; "" means the
	// issuer's URL and #, but nothing before the claim email, and - means nothing.
	UsernameClaim, UsernamePrefix string
	// GroupsClaim is the claim with the user's groups; "" is none. GroupsPrefix stands before each of them.
	GroupsClaim, GroupsPrefix string
	// SigningAlgs are the algorithms that a token may be signed with; nil means RS256.
	SigningAlgs []string
	// RequiredClaims are claims that a token must have, with their values.
	RequiredClaims map[string]string
}

// TokenWebhook is a server that reviews tokens, by kube-apiserver's flags --authentication-token-webhook-*.
type TokenWebhook struct {
	// ConfigFile is a kubeconfig that names it; "" is none.
	ConfigFile string
	// Version is that of the TokenReview, v1 or v1beta1; "" means v1beta1, as upstream.
	Version string
	// CacheTTL is how long an answer counts. 0 means 2 minutes, a negative value that none is kept.
	CacheTTL time.Duration
}

// FrontProxy is a proxy that authenticates callers and names them in headers, by kube-apiserver's flags
// --requestheader-*. Without one, requests with the headers X-Remote-* are refused.
type FrontProxy struct {
	// ClientCAFile has the CAs of the proxy's client certificate; "" is no proxy. It is read again when it changes.
	ClientCAFile string
	// AllowedNames are the common names of the certificate; nil means any.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders are names of headers, ExtraHeaderPrefixes beginnings of names.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

func (a Authentication) withDefaults() (Authentication, error) {
	if (a.TLSCertFile == "") != (a.TLSPrivateKeyFile == "") {
		return a, errors.New("a serving certificate needs both TLSCertFile and TLSPrivateKeyFile")
	}
	if len(a.ServiceAccountIssuers) == 0 {
		a.ServiceAccountIssuers = []string{DefaultServiceAccountIssuer}
	}
	if slices.Contains(a.ServiceAccountIssuers, "") {
		return a, errors.New("an issuer of service account tokens is empty")
	}
	if len(a.APIAudiences) == 0 {
		a.APIAudiences = a.ServiceAccountIssuers
	}
	if most := a.ServiceAccountMaxTokenExpiration; most != 0 && (most < time.Hour || most > maxTokenExpiration) {
		return a, errors.New("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
	}
	a.Webhook.Version = cmp.Or(a.Webhook.Version, "v1beta1")
	a.Webhook.CacheTTL = max(cmp.Or(a.Webhook.CacheTTL, 2*time.Minute), 0)
	return a, a.FrontProxy.check()
}

// maxTokenExpiration is kube-apiserver's (pkg/controlplane/apiserver/options).
const maxTokenExpiration = 1 << 32 * time.Second

// check returns what is wrong with a front proxy, with upstream's texts.
func (p FrontProxy) check() error {
	for _, of := range []struct {
		flag   string
		values []string
	}{
		{"requestheader-username-headers", p.UsernameHeaders},
		{"requestheader-group-headers", p.GroupHeaders},
		{"requestheader-extra-headers-prefix", p.ExtraHeaderPrefixes},
		{"requestheader-allowed-names", p.AllowedNames},
		{"requestheader-uid-headers", p.UIDHeaders},
	} {
		if slices.ContainsFunc(of.values, func(value string) bool { return strings.TrimSpace(value) == "" }) {
			return fmt.Errorf("empty value in %q", of.flag)
		}
	}
	standard := func(name string) bool { return strings.EqualFold(name, "X-Remote-Uid") }
	if len(p.UIDHeaders) > 0 && !slices.ContainsFunc(p.UIDHeaders, standard) {
		return errors.New("--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API " +
			"aggregation will not work")
	}
	return nil
}

func (a Authentication) files() auth.Files {
	return auth.Files{
		Cert: a.TLSCertFile, Key: a.TLSPrivateKeyFile, ClientCA: a.ClientCAFile, FrontProxyCA: a.FrontProxy.ClientCAFile,
		AnyProxy: len(a.FrontProxy.AllowedNames) == 0,
	}
}

// readAuthentication reads what can be wrong in files that are given, before anything is created.
func (s *Server) readAuthentication() error {
	a := &s.cfg.Authentication
	if err := a.files().Check(); err != nil {
		return err
	}
	var err error
	if path := a.TokenAuthFile; path != "" {
		if s.tokens, err = authn.ReadTokens(path); err != nil {
			return err
		}
	}
	s.external, err = external.Read(external.Config{
		File: a.ConfigFile, OIDC: external.OIDC(a.OIDC), Webhook: external.Webhook(a.Webhook),
		Disallowed: a.ServiceAccountIssuers, Audiences: a.APIAudiences, Logger: s.cfg.Logger,
		Reloads: s.reloadsOf("authentication"),
	})
	if err != nil {
		return err
	}
	said := s.external.Anonymous()
	if said == nil {
		return nil
	}
	if a.Anonymous || a.PrivateHealth {
		return fmt.Errorf("authentication configuration %s: anonymous: Forbidden: --anonymous-auth flag cannot be set when "+
			"anonymous field is configured in authentication configuration file", a.ConfigFile)
	}
	// What the file does not let be anonymous is not, health checks neither.
	a.Anonymous, a.PrivateHealth = said.Enabled, !said.Enabled || len(said.Conditions) > 0
	if a.Anonymous && slices.Contains(s.cfg.authorizationModes(), AuthorizationAlwaysAllow) {
		return fmt.Errorf("authentication configuration %s: anonymous.enabled: the authorization mode AlwaysAllow would let "+
			"everybody do everything: set it to false, or take another mode", a.ConfigFile)
	}
	for _, condition := range said.Conditions {
		a.anonymousPaths = append(a.anonymousPaths, condition.Path)
	}
	return nil
}

// proxy returns what takes the headers of a front proxy; nil without one.
func (s *Server) proxy() *authn.FrontProxy {
	p := s.cfg.Authentication.FrontProxy
	if p.ClientCAFile == "" {
		return nil
	}
	return &authn.FrontProxy{
		Trusted: s.credentials.TrustedProxy, AllowedNames: p.AllowedNames, UserHeaders: p.UsernameHeaders,
		UIDHeaders: p.UIDHeaders, GroupHeaders: p.GroupHeaders, ExtraPrefixes: p.ExtraHeaderPrefixes,
	}
}

// trust returns by what the server knows its callers now.
func (s *Server) trust() bootstrap.Trust {
	p := s.cfg.Authentication.FrontProxy
	clients, proxies := s.credentials.ClientCAs()
	return bootstrap.Trust{
		ClientCAs: clients, FrontProxyCAs: proxies, AllowedNames: p.AllowedNames, UsernameHeaders: p.UsernameHeaders,
		UIDHeaders: p.UIDHeaders, GroupHeaders: p.GroupHeaders, ExtraHeaderPrefixes: p.ExtraHeaderPrefixes,
	}
}

// others returns what knows further tokens, in the order in which it is asked: who asks other servers is the last.
func (s *Server) others() (all []authenticator.Token) {
	if s.cfg.Authentication.BootstrapTokens {
		all = append(all, authenticator.WrapAudienceAgnosticToken(s.cfg.Authentication.APIAudiences,
			authn.BootstrapTokens{Objects: s.registry}))
	}
	if s.external != nil {
		all = append(all, s.external)
	}
	return all
}

// runAccess runs what follows the files about who calls and what they may do.
func (s *Server) runAccess(ctx context.Context, g *errgroup.Group) error {
	if s.chain != nil {
		g.Go(func() error { return s.chain.Run(ctx) })
	}
	if s.external == nil {
		return nil
	}
	if err := s.external.Start(ctx); err != nil {
		return err
	}
	g.Go(func() error { return s.external.Run(ctx) })
	return nil
}

// callers identify the callers of requests.
type callers struct {
	authenticator *authn.Authenticator
	discovery     http.Handler // nil: nothing can be discovered
}

// callers returns what identifies callers. The credentials are open, and the registry exists.
func (s *Server) callers(ctx context.Context) (callers, error) {
	a := s.cfg.Authentication
	var signing crypto.Signer
	var err error
	if a.ServiceAccountSigningKeyFile != "" {
		signing, err = auth.ReadSigningKey(a.ServiceAccountSigningKeyFile)
	} else {
		signing, err = auth.SigningKey(s.cfg.DataDir)
	}
	if err != nil {
		return callers{}, err
	}
	keys, err := authn.NewKeys(signing, a.ServiceAccountKeyFiles)
	if err != nil {
		return callers{}, err
	}
	c := callers{authenticator: authn.New(authn.Config{
		Trusted: s.credentials.Trusted, FrontProxy: s.proxy(), Tokens: s.tokens, Audiences: a.APIAudiences,
		Anonymous: a.Anonymous, AnonymousPaths: a.anonymousPaths, Others: s.others(), Logger: s.cfg.Logger,
		Accounts: authn.NewAccounts(authn.AccountsConfig{
			Keys: keys, Issuers: a.ServiceAccountIssuers, Audiences: a.APIAudiences, Objects: s.registry,
			MaxExpiration: a.ServiceAccountMaxTokenExpiration, FixedExpiration: a.FixedTokenExpiration,
		}),
	})}
	at := a.ServiceAccountJWKSURI
	if at == "" {
		at = s.url() + authn.KeySetPath
	}
	discovery, err := authn.NewDiscovery(a.ServiceAccountIssuers[0], at, keys)
	if err != nil { // as upstream: tokens work, only others cannot look up their keys
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the issuer of service account tokens cannot be discovered",
			slog.Any("err", err))
		return c, nil
	}
	c.discovery = discovery
	return c, nil
}
