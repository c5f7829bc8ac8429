package gapless

import (
	"fmt"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/rbac"
	"github.com/gapless-io/gapless/internal/registry"
)

// The values of Config.AuthorizationMode. With each of them, members of system:masters may
// do everything.
const (
	// AuthorizationRBAC lets users do what the roles that are bound to them allow.
	AuthorizationRBAC = "RBAC"
	// AuthorizationMastersOnly lets other users only ask who they are and what they may do.
	AuthorizationMastersOnly = "MastersOnly"
	// AuthorizationAlwaysAllow lets every user with credentials do everything.
	AuthorizationAlwaysAllow = "AlwaysAllow"
)

func checkAuthorizationMode(mode string) error {
	switch mode {
	case AuthorizationRBAC, AuthorizationMastersOnly, AuthorizationAlwaysAllow:
		return nil
	}
	return fmt.Errorf("authorization mode %q is unknown: want %s, %s or %s",
		mode, AuthorizationRBAC, AuthorizationMastersOnly, AuthorizationAlwaysAllow)
}

// authorize makes the authorizer, which may follow the roles of a registry, and returns the
// plugins that check writes of roles and signing requests.
func (s *Server) authorize(cfg *registry.Config) (checks admission.Chain) {
	switch s.cfg.AuthorizationMode {
	case AuthorizationMastersOnly:
		s.authorizer = auth.MastersOnly{}
	case AuthorizationAlwaysAllow:
		s.authorizer = auth.AlwaysAllow{}
	default:
		roles := rbac.New(s.cfg.Logger)
		s.authorizer = roles
		cfg.Followers = append(cfg.Followers, roles)
		checks = append(checks, rbac.Escalation{Of: roles, Authorizer: roles})
	}
	return append(checks, rbac.Signing{Authorizer: s.authorizer})
}
