package gapless

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/nodes"
	"github.com/gapless-io/gapless/internal/auth/rbac"
	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/registry"
)

// The values of Config.AuthorizationMode. With each of them, members of system:masters may
// do everything.
const (
	// AuthorizationRBAC lets users do what the roles that are bound to them allow.
	AuthorizationRBAC = "RBAC"
	// AuthorizationNode lets kubelets do what their node and its pods need; others are not its business.
	AuthorizationNode = "Node"
	// AuthorizationMastersOnly lets other users only ask who they are and what they may do. It stands alone.
	AuthorizationMastersOnly = "MastersOnly"
	// AuthorizationAlwaysAllow lets every user with credentials do everything.
	AuthorizationAlwaysAllow = "AlwaysAllow"
	// AuthorizationAlwaysDeny allows nothing by itself.
	AuthorizationAlwaysDeny = "AlwaysDeny"
)

// authorizationModes returns the modes of Config.AuthorizationMode.
func (c Config) authorizationModes() []string { return strings.Split(c.AuthorizationMode, ",") }

func checkAuthorizationMode(modes []string) error {
	known := []string{
		AuthorizationRBAC, AuthorizationNode, AuthorizationMastersOnly, AuthorizationAlwaysAllow, AuthorizationAlwaysDeny,
	}
	for i, mode := range modes {
		switch {
		case !slices.Contains(known, mode):
			return fmt.Errorf("authorization mode %q is unknown: want %s", mode, strings.Join(known, ", "))
		case slices.Contains(modes[:i], mode):
			return fmt.Errorf("authorization mode %q is given twice", mode)
		case mode == AuthorizationMastersOnly && len(modes) > 1:
			return fmt.Errorf("authorization mode %s beside others: it stands alone; %s is upstream's", mode, AuthorizationAlwaysDeny)
		}
	}
	return nil
}

// authorize makes the authorizer, which may follow the roles and pods of a registry, and returns the
// plugins that check writes of roles and signing requests. It asks several modes in their order, with upstream's names.
func (s *Server) authorize(cfg *registry.Config) (checks admission.Chain) {
	all := auth.Union{{Name: "kubernetes.io/system-privileged-group", Authorizer: auth.Privileged{}}}
	var roles *rbac.Authorizer
	for _, mode := range s.cfg.authorizationModes() {
		var one auth.Authorizer
		switch mode {
		case AuthorizationMastersOnly:
			one = auth.MastersOnly{}
		case AuthorizationAlwaysAllow:
			one = auth.AlwaysAllow{}
		case AuthorizationAlwaysDeny:
			one = auth.AlwaysDeny{}
		case AuthorizationNode:
			kubelets := nodes.New(s.cluster, bootstrap.NodeRules())
			cfg.Followers = append(cfg.Followers, kubelets)
			one = kubelets
		default:
			roles = rbac.New(s.cfg.Logger)
			cfg.Followers = append(cfg.Followers, roles)
			one = roles
		}
		all = append(all, auth.Named{Name: strings.ToLower(mode), Authorizer: one})
	}
	s.authorizer = all
	if roles != nil {
		checks = append(checks, rbac.Escalation{Of: roles, Authorizer: s.authorizer})
	}
	return append(checks, rbac.Signing{Authorizer: s.authorizer})
}
