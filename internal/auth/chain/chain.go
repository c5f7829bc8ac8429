// Package chain asks several authorizers, in the order of a list of modes, or of a file with an AuthorizationConfiguration
// of apiserver.config.k8s.io, and among them webhooks.
//
// [Read] makes a [Chain] of a [Config]; Run follows the file. Rules and texts are upstream's (kubernetes
// pkg/kubeapiserver/authorizer and options/authorization.go).
package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"github.com/gapless-io/gapless/internal/auth"
)

// webhookMode is the type of authorizers of which there can be several.
const webhookMode = string(apiserver.TypeWebhook)

// Config says who is asked. Known and Logger are required, and either File or Modes.
type Config struct {
	// Known are the authorizers besides webhooks, by their modes: RBAC, Node, AlwaysAllow, AlwaysDeny.
	Known map[string]auth.Authorizer
	// File has an AuthorizationConfiguration.
	File string
	// Modes are names of Known, or Webhook.
	Modes []string
	// Webhook is that of the mode Webhook.
	Webhook Webhook
	Reloads *auth.Reloads // counts changes of File; nil: nothing does
	Logger  *slog.Logger
}

// Webhook is a server that reviews access, by kube-apiserver's flags --authorization-webhook-*.
type Webhook struct {
	ConfigFile                     string // a kubeconfig
	Version                        string // of the SubjectAccessReview: v1 or v1beta1
	AuthorizedTTL, UnauthorizedTTL time.Duration
}

// Chain asks authorizers in their order. It implements auth.Authorizer.
type Chain struct {
	cfg      Config
	compiler authorizationcel.Compiler // nil without webhooks and a file
	content  []byte                    // of the file, at the start
	last     *apiserver.AuthorizationConfiguration
	current  atomic.Pointer[auth.Union]
}

// Read makes a Chain. It asks no webhook. Errors name the file, or the flags, and what is wrong.
func Read(cfg Config) (*Chain, error) {
	c := &Chain{cfg: cfg}
	if cfg.File == "" {
		read, err := cfg.ofModes()
		if err != nil {
			return nil, err
		}
		c.last = read
	} else {
		var err error
		if c.content, err = os.ReadFile(cfg.File); err != nil {
			return nil, fmt.Errorf("read the authorization configuration: %w", err)
		}
		if c.last, err = c.parse(c.content, nil); err != nil {
			return nil, fmt.Errorf("authorization configuration %s: %w", cfg.File, err)
		}
	}
	made, err := c.union(c.last)
	if err != nil {
		if cfg.File != "" {
			err = fmt.Errorf("authorization configuration %s: %w", cfg.File, err)
		}
		return nil, err
	}
	c.current.Store(&made)
	return c, nil
}

// Uses reports whether an authorizer of a mode is asked. A file that changes neither adds one nor removes one.
func (c *Chain) Uses(mode string) bool {
	return slices.ContainsFunc(c.last.Authorizers, func(a apiserver.AuthorizerConfiguration) bool {
		return string(a.Type) == mode
	})
}

// AllowsAll reports whether everybody may do everything, whatever changes.
func (c *Chain) AllowsAll() bool {
	return c.cfg.File == "" && slices.Contains(c.cfg.Modes, "AlwaysAllow") && !slices.Contains(c.cfg.Modes, webhookMode)
}

// MayWait reports whether a decision may wait for a webhook, now or when the file has changed.
func (c *Chain) MayWait() bool { return c.cfg.File != "" || slices.Contains(c.cfg.Modes, webhookMode) }

// Authorize implements auth.Authorizer.
func (c *Chain) Authorize(ctx context.Context, u user.Info, a auth.Attributes) error {
	return c.current.Load().Authorize(ctx, u, a)
}

// Decide implements auth.Authorizer.
func (c *Chain) Decide(ctx context.Context, u user.Info, a auth.Attributes) auth.Decision {
	return c.current.Load().Decide(ctx, u, a)
}

// Rules implements auth.Authorizer.
func (c *Chain) Rules(ctx context.Context, u user.Info, namespace string) (auth.Rules, error) {
	return c.current.Load().Rules(ctx, u, namespace)
}

// Run follows the file, if there is one, until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	if c.cfg.File == "" {
		return nil
	}
	required := sets.New[apiserver.AuthorizerType]()
	for _, a := range c.last.Authorizers {
		if a.Type != apiserver.TypeWebhook {
			required.Insert(a.Type)
		}
	}
	last := c.last
	auth.Followed{
		Path: c.cfg.File, Taken: c.content, Logger: c.cfg.Logger, Reloads: c.cfg.Reloads,
		Take: func(_ context.Context, content []byte) error {
			read, err := c.parse(content, required)
			if err != nil || reflect.DeepEqual(read, last) {
				return err
			}
			for _, a := range read.Authorizers {
				if a.Type != apiserver.TypeWebhook && !required.Has(a.Type) {
					return fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", a.Type)
				}
			}
			made, err := c.union(read)
			if err != nil {
				return err
			}
			last = read
			c.current.Store(&made)
			return nil
		},
	}.Run(ctx)
	return nil
}

// parse reads the content of a file, which must have authorizers of the required types.
func (c *Chain) parse(content []byte, required sets.Set[apiserver.AuthorizerType],
) (*apiserver.AuthorizationConfiguration, error) {
	read, err := load.LoadFromData(content)
	if err != nil {
		return nil, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err)
	}
	if c.compiler == nil {
		c.compiler = authorizationcel.NewDefaultCompiler()
	}
	known := sets.New(slices.Collect(maps.Keys(c.cfg.Known))...).Insert(webhookMode)
	if errs := validation.ValidateAuthorizationConfiguration(c.compiler, nil, read, known, sets.New(webhookMode)); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var errs []error
	seen := sets.New[apiserver.AuthorizerType]()
	for i, a := range read.Authorizers {
		if a.Type == apiserver.TypeWebhook {
			if a.Webhook.ConnectionInfo.Type != apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile {
				errs = append(errs, fmt.Errorf("authorizers[%d].connectionInfo.type: want %s: this server runs in no cluster", i,
					apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile))
			}
			continue
		}
		seen.Insert(a.Type)
		if name := nameOf(string(a.Type)); a.Name != name {
			errs = append(errs, fmt.Errorf("expected name %s for authorizer %s instead of %s", name, a.Type, a.Name))
		}
	}
	if missing := required.Difference(seen); missing.Len() > 0 {
		errs = append(errs, fmt.Errorf("missing required types: %v", sets.List(missing)))
	}
	return read, errors.Join(errs...)
}

// nameOf is the name of the authorizer of a mode.
func nameOf(mode string) string { return strings.ToLower(mode) }

// ofModes returns the list of modes as a configuration.
func (c Config) ofModes() (*apiserver.AuthorizationConfiguration, error) {
	made := &apiserver.AuthorizationConfiguration{}
	seen := map[string]bool{}
	for _, mode := range c.Modes {
		if seen[mode] {
			return nil, fmt.Errorf("authorization-mode %q has mode specified more than once", c.Modes)
		}
		seen[mode] = true
		one := apiserver.AuthorizerConfiguration{Type: apiserver.AuthorizerType(mode), Name: nameOf(mode)}
		switch {
		case mode == webhookMode && c.Webhook.ConfigFile == "":
			return nil, errors.New("authorization-mode Webhook's authorization config file not passed")
		case mode == webhookMode:
			one.Name, one.Webhook = "default", c.Webhook.configuration()
		case c.Known[mode] == nil:
			known := append(slices.Sorted(maps.Keys(c.Known)), webhookMode)
			return nil, fmt.Errorf("authorization-mode %q is not a valid mode: want some of %s", mode, strings.Join(known, ", "))
		}
		made.Authorizers = append(made.Authorizers, one)
	}
	switch {
	case len(made.Authorizers) == 0:
		return nil, errors.New("at least one authorization-mode must be passed")
	case c.Webhook.ConfigFile != "" && !seen[webhookMode]:
		return nil, errors.New("cannot specify --authorization-webhook-config-file without mode Webhook")
	}
	return made, nil
}

// configuration returns the webhook of the flags as one of a file.
func (w Webhook) configuration() *apiserver.WebhookConfiguration {
	return &apiserver.WebhookConfiguration{
		AuthorizedTTL: metav1.Duration{Duration: w.AuthorizedTTL}, CacheAuthorizedRequests: w.AuthorizedTTL != 0,
		UnauthorizedTTL: metav1.Duration{Duration: w.UnauthorizedTTL}, CacheUnauthorizedRequests: w.UnauthorizedTTL != 0,
		Timeout: metav1.Duration{Duration: 30 * time.Second}, FailurePolicy: apiserver.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: w.Version,
		ConnectionInfo: apiserver.WebhookConnectionInfo{
			Type: apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile, KubeConfigFile: &w.ConfigFile,
		},
	}
}

// union makes the authorizers of a configuration. Members of system:masters may do everything, whatever it says.
func (c *Chain) union(of *apiserver.AuthorizationConfiguration) (auth.Union, error) {
	all := auth.Union{{Name: "kubernetes.io/system-privileged-group", Authorizer: auth.Privileged{}}}
	for _, one := range of.Authorizers {
		a := c.cfg.Known[string(one.Type)]
		if one.Type == apiserver.TypeWebhook {
			if c.compiler == nil {
				c.compiler = authorizationcel.NewDefaultCompiler()
			}
			hook, err := newWebhook(one, c.compiler)
			if err != nil {
				return nil, fmt.Errorf("authorizer %s: %w", one.Name, err)
			}
			a = hook
		}
		all = append(all, auth.Named{Name: one.Name, Authorizer: a})
	}
	return all, nil
}
