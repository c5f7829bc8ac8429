package webhook

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/match"
)

// asked is a write that webhooks are asked about.
type asked struct {
	upstream.Attributes
	views *match.Views
}

func (p *Plugin) asked(a upstream.Attributes) asked {
	return asked{a, match.NewViews(p.live, p.cluster, a)}
}

// call is one webhook that is to be asked about a write, as the resource that it asks for.
type call struct {
	candidate
	by   match.Matched
	view *upstream.VersionedAttributes
}

// applies returns the call of a webhook; nil if it is not to be asked: by its selectors, the
// names of its rules, or its match conditions. Errors are answered as they are.
func (p *Plugin) applies(ctx context.Context, c candidate, a asked) (*call, error) {
	by, is, err := p.match.Matches(c.plan, a)
	if err != nil || !is {
		return nil, err
	}
	if len(c.MatchConditions) == 0 {
		return &call{candidate: c, by: by}, nil
	}
	view, err := a.views.Of(ctx, by)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	result := c.conditions(p.compiler).Match(ctx, view, nil, p.authorizer)
	if result.Error != nil {
		p.logger.WarnContext(ctx, "match conditions of a webhook cannot be evaluated: the write is refused",
			slog.String("webhook", c.Name), slog.Any("error", result.Error))
		return nil, apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), result.Error)
	}
	if !result.Matches {
		return nil, nil //nolint:nilnil // nobody to ask is one of the answers
	}
	return &call{candidate: c, by: by}, nil
}
