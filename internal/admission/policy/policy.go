// Package policy evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies.
//
// A [Plugin] is asked about each write. Its index holds the policies with their bindings; it is
// immutable, and made anew for the first write after one of them has changed. A definition is one
// version of a policy, compiled when a write first matches it. A request is what the policies see
// of one write.
//
// The semantics are those of k8s.io/apiserver's admission/plugin/policy, which reads through
// informers; this package reads the caches of the registry. Expressions are compiled and
// evaluated by upstream's admission/plugin/cel, and patches made by policy/mutating/patch.
package policy

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Config configures a Plugin. All of it but Logger is required.
type Config struct {
	Live    *kinds.Live
	Cluster Cluster
	// Authorizer is the variable "authorizer" of expressions.
	Authorizer authorizer.UnconditionalAuthorizer
	Logger     *slog.Logger
}

// Cluster is what policies read besides the object of a request. Its methods are safe for
// concurrent use, and read from memory; conversions may call webhooks.
type Cluster interface {
	match.Objects
	match.Converter
	Parameters
	// Types returns how the fields of a kind merge.
	Types(r *kinds.Resource) (managedfields.TypeConverter, error)
}

// Parameters is what a policy's parameters are found with.
type Parameters interface {
	// Objects yields the objects of a resource, in one namespace or ("") all, as they are stored.
	Objects(gr kinds.GroupResource, namespace string) iter.Seq[*wire.Object]
	// UnknownOf returns an error that names an object of which nothing is known, because its value cannot be read:
	// of one name or ("") of any, in one namespace or ("") in any; nil if there is none.
	UnknownOf(gr kinds.GroupResource, namespace, name string) error
	// Show returns a stored object in the version of a resource.
	Show(ctx context.Context, to *kinds.Resource, o *wire.Object) (*wire.Object, error)
}

// Plugin evaluates the policies that it follows. It is safe for concurrent use.
type Plugin struct {
	live    *kinds.Live
	cluster Cluster
	authz   authorizer.UnconditionalAuthorizer
	logger  *slog.Logger
	match   *match.Matcher
	metrics *metrics

	current atomic.Pointer[index] // nil: something has changed since the last one

	// mu guards what follows, and the making of the index.
	mu         sync.Mutex
	validating family
	mutating   family
}

// family are the policies of one kind, and their bindings, by name.
type family struct {
	policies map[string]*definition
	bindings map[string]*binding
}

// New returns a plugin without policies.
func New(cfg Config) *Plugin {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Plugin{
		live: cfg.Live, cluster: cfg.Cluster, authz: cfg.Authorizer, logger: cfg.Logger,
		match: match.New(cfg.Live, cfg.Cluster), metrics: newMetrics(),
		validating: family{policies: map[string]*definition{}, bindings: map[string]*binding{}},
		mutating:   family{policies: map[string]*definition{}, bindings: map[string]*binding{}},
	}
}

// Handles reports whether a policy with a binding may match an operation.
func (p *Plugin) Handles(r *kinds.Resource, subresource string, op admission.Operation) bool {
	candidates := p.candidates(match.Question{Resource: r.GVR(), Subresource: subresource, Operation: op})
	return candidates != nil && (len(candidates.validating.all) > 0 || len(candidates.mutating.all) > 0)
}

// Waits implements admission.Plugin: expressions see managedFields.
func (*Plugin) Waits(*kinds.Resource, string, admission.Operation) bool { return true }

// Admit changes the object of a request as the mutating policies say. After each change it
// calls redo, which brings the object into its kind's form.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, redo func() error) error {
	candidates := p.candidates(match.QuestionOf(a))
	if candidates == nil || len(candidates.mutating.all) == 0 || a.GetOperation() == admission.Delete {
		return nil // there is nothing to change about a deletion
	}
	return p.mutate(ctx, p.newRequest(a), &candidates.mutating, redo)
}

// Validate refuses a request that a validating policy denies.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes) error {
	candidates := p.candidates(match.QuestionOf(a))
	if candidates == nil || len(candidates.validating.all) == 0 {
		return nil
	}
	return p.validate(ctx, p.newRequest(a), &candidates.validating)
}
