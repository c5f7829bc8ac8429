package webhook

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// configurations are all of the cluster, by name. They are immutable.
type configurations struct {
	mutating, validating map[string]*configuration
}

// configuration is one MutatingWebhookConfiguration or ValidatingWebhookConfiguration.
type configuration struct {
	object  *wire.Object
	mutates bool

	decode sync.Once
	hooks  []*hooked
}

// hooked is a hook: one webhook of a configuration.
type hooked struct {
	// The members of a validating webhook are those of a mutating one, which has a
	// reinvocationPolicy besides.
	admissionregistrationv1.MutatingWebhook
	uid           string // of all webhooks
	configuration string
	mutates       bool
	target        *kinds.Webhook
	broken        error // of a clientConfig that cannot be used

	criteria *match.Criteria

	compile sync.Once
	matcher matchconditions.Matcher
}

// read returns the webhooks of a configuration, which it decodes once.
func (c *configuration) read(logger *slog.Logger) []*hooked {
	c.decode.Do(func() {
		// Both kinds have their webhooks in the same member.
		var content struct {
			Webhooks []admissionregistrationv1.MutatingWebhook `json:"webhooks"`
		}
		if err := json.Unmarshal(c.object.JSON(), &content); err != nil {
			// It was validated when it was written.
			logger.Error("a webhook configuration cannot be read: its webhooks are not called",
				slog.String("name", c.object.Key().Name), slog.Any("error", err))
			return
		}
		names := map[string]int{}
		for _, w := range content.Webhooks {
			h := &hooked{
				MutatingWebhook: w, configuration: c.object.Key().Name, mutates: c.mutates,
				uid: fmt.Sprintf("%s/%s/%d", c.object.Key().Name, w.Name, names[w.Name]),
			}
			names[w.Name]++
			var err error
			if h.criteria, err = match.CompileWebhook(&w); err != nil {
				// The API server fills selectors in when a configuration is written.
				logger.Error("a webhook has no selectors: it is not called",
					slog.String("configuration", h.configuration), slog.String("webhook", w.Name), slog.Any("error", err))
				continue
			}
			h.target, h.broken = targetOf(w.Name, w.ClientConfig)
			c.hooks = append(c.hooks, h)
		}
	})
	return c.hooks
}

// targetOf returns what is called.
func targetOf(name string, c admissionregistrationv1.WebhookClientConfig) (*kinds.Webhook, error) {
	w := &kinds.Webhook{CABundle: c.CABundle}
	switch {
	case c.Service != nil:
		w.Service = &kinds.ServiceReference{Namespace: c.Service.Namespace, Name: c.Service.Name, Port: 443}
		if c.Service.Path != nil {
			w.Service.Path = *c.Service.Path
		}
		if c.Service.Port != nil && *c.Service.Port != 0 {
			w.Service.Port = *c.Service.Port
		}
	case c.URL != nil && *c.URL != "":
		w.URL = *c.URL
	default:
		return nil, fmt.Errorf("failed calling webhook %q: webhook configuration must have either service or URL", name)
	}
	return w, nil
}

// step is what upstream's metrics and matchers call the phase of a hook.
func (h *hooked) step() string {
	if h.mutates {
		return "admit"
	}
	return "validating"
}

// ignores reports whether a write goes on when the webhook cannot be called.
func (h *hooked) ignores() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionregistrationv1.Ignore
}

// conditions returns the compiled match conditions.
func (h *hooked) conditions(compiler func() cel.ConditionCompiler) matchconditions.Matcher {
	h.compile.Do(func() {
		all := make([]cel.ExpressionAccessor, len(h.MatchConditions))
		for i, c := range h.MatchConditions {
			all[i] = &matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression}
		}
		phase := "validate"
		if h.mutates {
			phase = "admit"
		}
		compiled := compiler().CompileCondition(all, cel.OptionalVariableDeclarations{HasAuthorizer: true},
			environment.StoredExpressions)
		h.matcher = matchconditions.NewMatcher(compiled, h.FailurePolicy, "webhook", phase, h.Name)
	})
	return h.matcher
}

// sorted returns the webhooks of configurations in the order of their names.
func sorted(all map[string]*configuration, logger *slog.Logger) []*hooked {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var hooks []*hooked
	for _, name := range names {
		hooks = append(hooks, all[name].read(logger)...)
	}
	return hooks
}
