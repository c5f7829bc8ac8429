package gapless

import (
	"context"
	"crypto"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
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
	return a, nil
}

func (a Authentication) files() auth.Files {
	return auth.Files{Cert: a.TLSCertFile, Key: a.TLSPrivateKeyFile, ClientCA: a.ClientCAFile}
}

// readAuthentication reads what can be wrong in files that are given, before anything is created.
func (s *Server) readAuthentication() error {
	if err := s.cfg.Authentication.files().Check(); err != nil {
		return err
	}
	var err error
	if path := s.cfg.Authentication.TokenAuthFile; path != "" {
		s.tokens, err = authn.ReadTokens(path)
	}
	return err
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
		Trusted: s.credentials.Trusted, Tokens: s.tokens, Audiences: a.APIAudiences, Anonymous: a.Anonymous, Logger: s.cfg.Logger,
		Accounts: authn.NewAccounts(authn.AccountsConfig{
			Keys: keys, Issuers: a.ServiceAccountIssuers, Audiences: a.APIAudiences, Objects: s.registry,
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
