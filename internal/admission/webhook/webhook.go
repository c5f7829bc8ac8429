// Package webhook asks the admission webhooks of the cluster about writes, as upstream's
// k8s.io/apiserver/pkg/admission/plugin/webhook does, whose informers it replaces by what the
// registry has in memory.
//
// It has four nouns. A [Plugin] follows the configurations, and asks their webhooks. A hook is
// one webhook of a configuration, with what was made of it. An index has, for each resource and
// operation, the hooks whose rules match, so that a write that concerns none costs one look-up. A
// review is one request to a webhook, and its answer, of which nothing is believed.
//
// Mutating webhooks are called one after the other, in the order of the names of their
// configurations; validating ones at the same time. Nothing here holds a lock while a webhook is
// called.
package webhook

import (
	"context"
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
	"github.com/gapless-io/gapless/internal/hook"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
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
	// Find returns a stored object; nil if there is none.
	Find(gr schema.GroupResource, key kube.Key) *kube.Object
	// Convert returns the content of an object of one version of a resource in another one. The
	// result may share parts with the argument.
	Convert(ctx context.Context, v schema.Versions, content map[string]any) (map[string]any, error)
}

// Config configures a Plugin. Live and Cluster are required.
type Config struct {
	Live    *schema.Live
	Cluster Cluster
	// Authorizer is the variable "authorizer" of match conditions; nil: they do not have it.
	Authorizer authorizer.Authorizer
	Logger     *slog.Logger
}

// Plugin asks webhooks about writes. It is safe for concurrent use. The user calls Close when it
// is not asked any more.
type Plugin struct {
	live       *schema.Live
	cluster    Cluster
	authorizer authorizer.Authorizer
	logger     *slog.Logger
	callers    *hook.Callers
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
		live: cfg.Live, cluster: cfg.Cluster, authorizer: cfg.Authorizer, logger: cfg.Logger, metrics: newMetrics(), decoder: decoder(),
		callers: hook.NewCallers(hook.Config{
			Cluster: cfg.Cluster, MaxAnswer: maxAnswer, Concurrent: concurrent, MaxCallers: maxCallers,
		}),
		// The environment of expressions takes megabytes, and most clusters need none.
		compiler: sync.OnceValue(func() cel.ConditionCompiler {
			return cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
		}),
	}
	p.configurations.Store(&configurations{})
	return p
}

// Close closes the connections that are not in use.
func (p *Plugin) Close() { p.callers.Close() }

// The resources of configurations.
const (
	group      = "admissionregistration.k8s.io"
	mutating   = "mutatingwebhookconfigurations"
	validating = "validatingwebhookconfigurations"
)

// Follows implements registry.Follower.
func (p *Plugin) Follows() []schema.GroupResource {
	return []schema.GroupResource{{Group: group, Resource: mutating}, {Group: group, Resource: validating}}
}

// Replace implements registry.Follower.
func (p *Plugin) Replace(gr schema.GroupResource, objects []*kube.Object) {
	all := make(map[string]*configuration, len(objects))
	for _, o := range objects {
		all[o.Key().Name] = &configuration{object: o, mutates: gr.Resource == mutating}
	}
	p.change(gr, func(map[string]*configuration) map[string]*configuration { return all })
}

// Change implements registry.Follower. The configuration is decoded by the first write that asks
// for it.
func (p *Plugin) Change(gr schema.GroupResource, o *kube.Object, deleted bool) {
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

func (p *Plugin) change(gr schema.GroupResource, with func(map[string]*configuration) map[string]*configuration) {
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
func (p *Plugin) Handles(r *schema.Resource, subresource string, op upstream.Operation) bool {
	found := p.current().find(question{r.GVR(), subresource, op, r.Namespaced})
	return len(found.mutating)+len(found.validating) > 0
}

// namespaces is the resource of which an object is its own namespace.
func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// placed are attributes of a write to a namespace itself, which upstream's handlers give the
// namespace's own name as its namespace.
type placed struct {
	upstream.Attributes
	namespace string
}

// GetNamespace implements admission.Attributes.
func (p *placed) GetNamespace() string { return p.namespace }

// candidatesFor returns the hooks whose rules match a write, and its attributes as they see them.
func (p *Plugin) candidatesFor(a upstream.Attributes) (*candidates, upstream.Attributes) {
	namespaced := a.GetNamespace() != ""
	if a.GetResource() == namespaces() {
		namespaced = false
		if a.GetNamespace() == "" {
			a = &placed{a, a.GetName()}
		}
	}
	return p.current().find(question{a.GetResource(), a.GetSubresource(), a.GetOperation(), namespaced}), a
}
