// Package webhook asks the admission webhooks of the cluster about writes, as upstream's
// k8s.io/apiserver/pkg/admission/plugin/webhook does, whose informers it replaces by what the
// registry has in memory.
//
// A [Plugin] follows the configurations, and asks their webhooks. A hook is one webhook of a
// configuration, with what was made of it. An index has, for each resource and operation, the
// hooks whose rules match, so that a write that concerns none costs one look-up. A call is a hook
// that is to be asked about a write. A review is its request and its answer, of which nothing is
// believed. Which hooks match is decided by package match.
//
// Mutating webhooks are called one after the other, in the order of the names of their
// configurations; validating ones at the same time. Nothing here holds a lock while a webhook is
// called.
package webhook

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/hook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// maxAnswer bounds an answer, in bytes. Upstream has no bound; a request may have as many.
	maxAnswer = 3 << 20
	// concurrent bounds the calls of one webhook at a time; more wait, within their own time. It
	// is more than the writes that the server does at a time by default: a webhook that writes
	// to the server while it is asked may be asked about that write too.
	concurrent = 256
	// maxCallers bounds the webhooks to which connections are kept.
	maxCallers = 256
)

// Cluster is what the plugin reads of the cluster, from memory, and how it converts objects.
type Cluster interface {
	hook.Cluster
	match.Objects
	match.Converter
}

// Config configures a Plugin. Live and Cluster are required.
type Config struct {
	Live    *kinds.Live
	Cluster Cluster
	// Authorizer is the variable "authorizer" of match conditions; nil: they do not have it.
	Authorizer authorizer.Authorizer
	// Shown are the credentials that webhooks are shown.
	Shown  Shown
	Logger *slog.Logger
}

// Plugin asks webhooks about writes. It is safe for concurrent use. The user calls Close when it
// is not asked any more.
type Plugin struct {
	live       *kinds.Live
	cluster    Cluster
	authorizer authorizer.Authorizer
	logger     *slog.Logger
	mutating   *hook.Callers
	validating *hook.Callers // mutating, unless credentials differ
	match      *match.Matcher
	metrics    *metrics
	decoder    runtime.Decoder
	compiler   func() cel.ConditionCompiler

	configurations atomic.Pointer[configurations]
	index          atomic.Pointer[index]
	// mu lets one change of configurations be made at a time.
	mu sync.Mutex
}

var _ admission.Plugin = (*Plugin)(nil)

// New returns a plugin that knows no webhooks. It starts no goroutine.
func New(cfg Config) *Plugin {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Plugin{
		live: cfg.Live, cluster: cfg.Cluster, authorizer: cfg.Authorizer, logger: cfg.Logger, metrics: newMetrics(),
		decoder: decoder(),
		match:   match.New(cfg.Live, cfg.Cluster),
		// The environment of expressions takes megabytes, and most clusters need none.
		compiler: sync.OnceValue(func() cel.ConditionCompiler {
			return cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		}),
	}
	callers := func(c Credentials) *hook.Callers {
		return hook.NewCallers(hook.Config{
			Cluster: cfg.Cluster, MaxAnswer: maxAnswer, Concurrent: concurrent, MaxCallers: maxCallers, Credentials: c.of,
		})
	}
	p.mutating = callers(cfg.Shown.Mutating)
	p.validating = p.mutating
	if cfg.Shown.Mutating.of != nil || cfg.Shown.Validating.of != nil {
		p.validating = callers(cfg.Shown.Validating)
	}
	p.configurations.Store(&configurations{})
	return p
}

// Close closes the connections that are not in use.
func (p *Plugin) Close() {
	p.mutating.Close()
	p.validating.Close()
}

// caller returns what calls a webhook.
func (p *Plugin) caller(h *hooked) *hook.Caller {
	if h.mutates {
		return p.mutating.Of(h.target)
	}
	return p.validating.Of(h.target)
}

// The resources of configurations.
const (
	group      = "admissionregistration.k8s.io"
	mutating   = "mutatingwebhookconfigurations"
	validating = "validatingwebhookconfigurations"
)

// Follows implements registry.Follower.
func (p *Plugin) Follows() []kinds.GroupResource {
	return []kinds.GroupResource{{Group: group, Resource: mutating}, {Group: group, Resource: validating}}
}

// Replace implements registry.Follower.
func (p *Plugin) Replace(gr kinds.GroupResource, objects []*wire.Object) {
	all := make(map[string]*configuration, len(objects))
	for _, o := range objects {
		all[o.Key().Name] = &configuration{object: o, mutates: gr.Resource == mutating}
	}
	p.change(gr, func(map[string]*configuration) map[string]*configuration { return all })
}

// Change implements registry.Follower. The configuration is decoded by the first write that asks
// for it.
func (p *Plugin) Change(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	p.change(gr, func(known map[string]*configuration) map[string]*configuration {
		all := maps.Clone(known)
		if deleted {
			delete(all, o.Key().Name)
			return all
		}
		if all == nil {
			all = map[string]*configuration{}
		}
		all[o.Key().Name] = &configuration{object: o, mutates: gr.Resource == mutating}
		return all
	})
}

func (p *Plugin) change(gr kinds.GroupResource, with func(map[string]*configuration) map[string]*configuration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.configurations.Load()
	switch gr.Resource {
	case mutating:
		next.mutating = with(next.mutating)
	case validating:
		next.validating = with(next.validating)
	}
	p.configurations.Store(&next)
}

// Handles implements admission.Plugin.
func (p *Plugin) Handles(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	found := p.find(match.Question{Resource: r.GVR(), Subresource: subresource, Operation: op})
	return found != nil && len(found.mutating)+len(found.validating) > 0
}
