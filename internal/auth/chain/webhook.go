package chain

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"

	"github.com/gapless-io/gapless/internal/auth"
)

// hook asks a webhook. Up to 8192 of its answers are kept, as upstream.
type hook struct{ of *webhook.WebhookAuthorizer }

func newWebhook(one apiserver.AuthorizerConfiguration, compiler authorizationcel.Compiler) (*hook, error) {
	w := one.Webhook
	file := *w.ConnectionInfo.KubeConfigFile
	client, err := webhookutil.LoadKubeconfig(file, nil)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	if w.Timeout.Duration != 0 {
		client.Timeout = w.Timeout.Duration
	}
	failed := authorizer.DecisionNoOpinion
	if w.FailurePolicy == apiserver.FailurePolicyDeny {
		failed = authorizer.DecisionDeny
	}
	authorized, unauthorized := w.AuthorizedTTL.Duration, w.UnauthorizedTTL.Duration
	if !w.CacheAuthorizedRequests {
		authorized = 0
	}
	if !w.CacheUnauthorizedRequests {
		unauthorized = 0
	}
	of, err := webhook.New(client, w.SubjectAccessReviewVersion, authorized, unauthorized, *webhook.DefaultRetryBackoff(), failed,
		w.MatchConditions, one.Name, metrics.NoopAuthorizerMetrics{}, compiler)
	if err != nil {
		return nil, err
	}
	return &hook{of}, nil
}

// Authorize implements auth.Authorizer.
func (h *hook) Authorize(ctx context.Context, u user.Info, a auth.Attributes) error {
	return h.Decide(ctx, u, a).Err(u, a)
}

// Decide implements auth.Authorizer. It may wait for the webhook, and ends with ctx.
func (h *hook) Decide(ctx context.Context, u user.Info, a auth.Attributes) auth.Decision {
	decision, reason, err := h.of.Authorize(ctx, a.Upstream(u))
	return auth.Decision{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny,
		Reason: func() string { return reason }, Failure: err,
	}
}

// Rules implements auth.Authorizer.
func (*hook) Rules(context.Context, user.Info, string) (auth.Rules, error) {
	return auth.Rules{Incomplete: true}, errors.New("webhook authorizer does not support user rule resolution")
}
