package gapless

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/chain"
	"github.com/gapless-io/gapless/internal/auth/nodes"
	"github.com/gapless-io/gapless/internal/auth/rbac"
	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/registry"
)

// The modes of Config.AuthorizationMode. With each of them, members of system:masters may do everything.
const (
	// AuthorizationRBAC lets users do what the roles that are bound to them allow.
	AuthorizationRBAC = "RBAC"
	// AuthorizationNode lets kubelets do what their node and its pods need; others are not its business.
	AuthorizationNode = "Node"
	// AuthorizationMastersOnly lets other users only ask who they are and what they may do. It stands alone.
	AuthorizationMastersOnly = "MastersOnly"
	// AuthorizationAlwaysAllow lets every user with credentials do everything.
	AuthorizationAlwaysAllow = "AlwaysAllow"
	// AuthorizationAlwaysDeny allows nothing: others do, or nobody.
	AuthorizationAlwaysDeny = "AlwaysDeny"
	// AuthorizationWebhook asks the webhook of Config.Authorization.
	AuthorizationWebhook = "Webhook"
)

// Authorization says who decides what callers may do, beyond Config.AuthorizationMode. Its members are kube-apiserver's
// flags; see docs/access.md.
type Authorization struct {
	// ConfigFile has an AuthorizationConfiguration of apiserver.config.k8s.io/v1: a list of authorizers, among them
	// webhooks. It is instead of Config.AuthorizationMode, and counts anew when it changes.
	ConfigFile string
	// Webhook is that of AuthorizationWebhook.
	Webhook AccessWebhook
}

// AccessWebhook is a server that reviews access.
type AccessWebhook struct {
	// ConfigFile is a kubeconfig that names it; "" is none.
	ConfigFile string
	// Version is that of the SubjectAccessReview, v1 or v1beta1; "" means v1beta1, as upstream.
	Version string
	// CacheAuthorizedTTL is how long an answer counts that allows, CacheUnauthorizedTTL how long another one does. 0 means
	// 5 minutes and 30 seconds, a negative value that no answer is kept.
	CacheAuthorizedTTL, CacheUnauthorizedTTL time.Duration
}

// authorizationModes returns the modes of Config.AuthorizationMode.
func (c Config) authorizationModes() []string {
	if c.AuthorizationMode == "" {
		return nil
	}
	return strings.Split(c.AuthorizationMode, ",")
}

// authorization sets the defaults of the authorization, and checks it as far as no file is read.
func (c Config) authorization() (Config, error) {
	w := &c.Authorization.Webhook
	if c.Authorization.ConfigFile != "" {
		if c.AuthorizationMode != "" || *w != (AccessWebhook{}) {
			return c, errors.New("--authorization-config can not be specified when --authorization-mode or " +
				"--authorization-webhook-* flags are defined")
		}
		return c, nil
	}
	c.AuthorizationMode = cmp.Or(c.AuthorizationMode, AuthorizationRBAC)
	known := []string{
		AuthorizationRBAC, AuthorizationNode, AuthorizationWebhook, AuthorizationMastersOnly, AuthorizationAlwaysAllow,
		AuthorizationAlwaysDeny,
	}
	modes := c.authorizationModes()
	for i, mode := range modes {
		switch {
		case !slices.Contains(known, mode):
			return c, fmt.Errorf("authorization mode %q is unknown: want %s", mode, strings.Join(known, ", "))
		case slices.Contains(modes[:i], mode):
			return c, fmt.Errorf("authorization mode %q is given twice", mode)
		case mode == AuthorizationMastersOnly && len(modes) > 1:
			return c, fmt.Errorf("authorization mode %s beside others: it stands alone; %s is upstream's",
				mode, AuthorizationAlwaysDeny)
		}
	}
	w.Version = cmp.Or(w.Version, "v1beta1")
	w.CacheAuthorizedTTL = max(cmp.Or(w.CacheAuthorizedTTL, 5*time.Minute), 0)
	w.CacheUnauthorizedTTL = max(cmp.Or(w.CacheUnauthorizedTTL, 30*time.Second), 0)
	return c, nil
}

const anonymousAlwaysAllow = "requests without credentials are answered 401: the authorization mode AlwaysAllow would let " +
	"everybody do everything"

// readAuthorization makes the authorizer. It reads what can be wrong in files that are given, before anything is created.
func (s *Server) readAuthorization() error {
	if s.cfg.AuthorizationMode == AuthorizationMastersOnly {
		s.authorizer = auth.MastersOnly{}
		return nil
	}
	s.roles, s.kubelets = rbac.New(s.cfg.Logger), nodes.New(s.cluster, bootstrap.NodeRules())
	w := s.cfg.Authorization.Webhook
	all, err := chain.Read(chain.Config{
		Known: map[string]auth.Authorizer{
			AuthorizationRBAC: s.roles, AuthorizationNode: s.kubelets,
			AuthorizationAlwaysAllow: auth.AlwaysAllow{}, AuthorizationAlwaysDeny: auth.AlwaysDeny{},
		},
		File: s.cfg.Authorization.ConfigFile, Modes: s.cfg.authorizationModes(), Logger: s.cfg.Logger,
		Reloads: s.reloadsOf("authorization"),
		Webhook: chain.Webhook{
			ConfigFile: w.ConfigFile, Version: w.Version,
			AuthorizedTTL: w.CacheAuthorizedTTL, UnauthorizedTTL: w.CacheUnauthorizedTTL,
		},
	})
	if err != nil {
		return err
	}
	s.chain, s.authorizer = all, all
	if s.cfg.Authentication.Anonymous && all.Uses(AuthorizationAlwaysAllow) { // of a file: see withDefaults
		s.cfg.Logger.Warn(anonymousAlwaysAllow)
		s.cfg.Authentication.Anonymous = false
	}
	return nil
}

// authorize lets the authorizer follow the roles and pods of a registry, and returns the plugins that check writes of
// roles and signing requests.
func (s *Server) authorize(cfg *registry.Config) (checks admission.Chain) {
	if s.chain != nil && s.chain.Uses(AuthorizationNode) {
		cfg.Followers = append(cfg.Followers, s.kubelets)
	}
	if s.chain != nil && !s.chain.AllowsAll() {
		cfg.Followers = append(cfg.Followers, s.roles)
		checks = append(checks, rbac.Escalation{Of: s.roles, Authorizer: s.authorizer})
	}
	return checks
}

// reloadsOf returns what counts how often a file of configuration was read again: of authentication or authorization.
func (s *Server) reloadsOf(kind string) *auth.Reloads {
	r := auth.NewReloads(kind)
	s.reloads = append(s.reloads, r)
	return r
}
