package admission

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// Request is a write that a client has asked for.
type Request struct {
	Target    kinds.Target // with its caller; the name of an object under creation may be missing
	Operation upstream.Operation
	Options   runtime.Object // *metav1.CreateOptions and the like
	DryRun    bool
}

// Review asks the plugins about one write. It is nil where no plugin has anything to say, and
// its methods then do nothing.
type Review struct {
	Request

	plugin Plugin
	waits  bool // of a plugin
	kind   kinds.GroupVersionKind
	form   Form
}

// Form brings an object that a plugin has changed into the form that its kind has.
type Form func(u *unstructured.Unstructured) error

// ReviewOf returns the review of a request, nil if no plugin handles it. The server asks nobody
// about its own writes, which have no caller: it must start before webhooks can be reached.
func ReviewOf(plugin Plugin, r Request) *Review {
	resource := r.Target.Resource
	if plugin == nil || r.Target.Caller == nil || !plugin.Handles(resource, r.Target.Subresource, r.Operation) {
		return nil
	}
	typed(r.Options)
	review := &Review{
		Request: r, plugin: plugin, kind: resource.GVK(), form: formOf(resource.Type),
		waits: plugin.Waits(resource, r.Target.Subresource, r.Operation),
	}
	if sub := resource.Subresource(r.Target.Subresource); sub != nil {
		review.kind = sub.Kind
		if sub.Body != nil {
			review.form = formOf(sub.Body)
		}
	}
	return review
}

// As returns the review for objects of another kind than the target's, such as Scale.
func (r *Review) As(kind kinds.GroupVersionKind, form Form) *Review {
	if r == nil {
		return nil
	}
	other := *r
	other.kind, other.form = kind, form
	return &other
}

// Asks reports whether a plugin is asked.
func (r *Review) Asks() bool { return r != nil }

// Waits reports whether one is asked that may take long, or looks at managedFields.
func (r *Review) Waits() bool { return r != nil && r.waits }

// Admit lets plugins change u, in place, and reports whether they did; old is nil for a
// creation. Where u is nil, for a deletion, they look at old.
func (r *Review) Admit(ctx context.Context, u, old *unstructured.Unstructured) (changed bool, err error) {
	if r == nil {
		return false, nil
	}
	if u != nil {
		u.SetGroupVersionKind(r.kind)
	}
	ctx, span := tracing.Start(ctx, "Admission: mutate")
	defer func() { span.End(err) }()
	before := managedOf(u)
	err = recorded{r.plugin, func() error {
		changed = true
		return r.form(u)
	}}.admit(withForm(ctx, r.form), r.attributes(u, old))
	if changed && err == nil {
		before.keep(ctx, u)
	}
	return changed, err
}

// Validate asks plugins whether u may be stored as it is; see Admit. It asks nobody for a client that
// has left.
func (r *Review) Validate(ctx context.Context, u, old *unstructured.Unstructured) (err error) {
	if err := context.Cause(ctx); err != nil || r == nil {
		return err
	}
	if u != nil {
		u.SetGroupVersionKind(r.kind)
	}
	ctx, span := tracing.Start(ctx, "Admission: validate")
	defer func() { span.End(err) }()
	return recorded{plugin: r.plugin}.validate(ctx, r.attributes(u, old))
}

func (r *Review) attributes(u, old *unstructured.Unstructured) upstream.Attributes {
	return r.attributesOf(r.kind, u, old)
}

//nolint:gochecknoglobals // a name
var namespaces = kinds.GroupResource{Resource: "namespaces"}

// typed gives options their kind, as upstream's handlers do: webhooks and expressions see it.
func typed(o runtime.Object) {
	var kind string
	switch o.(type) {
	case *metav1.CreateOptions:
		kind = "CreateOptions"
	case *metav1.UpdateOptions:
		kind = "UpdateOptions"
	case *metav1.DeleteOptions:
		kind = "DeleteOptions"
	default:
		return
	}
	o.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind)) // meta.k8s.io/v1
}

// formOf decodes an object again: it drops unknown fields, and fills in the defaults.
func formOf(t kinds.Type) Form {
	return func(u *unstructured.Unstructured) error {
		text, err := wire.Canonical(u.Object)
		if err != nil {
			return wire.BadRequest("%v", err)
		}
		decoded, _, err := t.Decode(text, kinds.FieldsIgnore)
		if err != nil {
			return err
		}
		if rv := u.GetResourceVersion(); rv != "" {
			decoded.SetResourceVersion(rv) // which the canonical form does not have
		}
		u.Object = decoded.Object
		return t.Default(u)
	}
}
