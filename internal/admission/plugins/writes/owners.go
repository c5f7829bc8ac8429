package writes

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// Owners is what OwnerReferencesPermissionEnforcement works with.
type Owners struct {
	Authorizer auth.Authorizer
	// MayWait reports whether the authorizer may ask others, and wait for them; nil: it does not.
	MayWait func() bool
	// Resources are those that are served now.
	Resources func() []*kinds.Resource
}

// OwnerReferencesPermissionEnforcement is upstream's plugin of this name: who changes the owners of an object must be
// allowed to delete it, and who lets it block the deletion of an owner, to set the finalizers of that one.
func OwnerReferencesPermissionEnforcement(cfg Owners) plugins.Plugin {
	concerns := everything(upstream.Create, upstream.Update)
	concerns[0].Waits = cfg.MayWait
	return plugins.Plugin{
		Name: "OwnerReferencesPermissionEnforcement", Concerns: concerns, Validate: cfg.validate,
	}
}

func (cfg Owners) validate(ctx context.Context, w *plugins.Write) error {
	if w.Object == nil ||
		w.GetResource().GroupResource() == (kinds.GroupResource{Resource: "pods"}) && w.GetSubresource() == "status" {
		return nil // old kubelets corrupt them, and a write of the status does not change them
	}
	now := w.Object.GetOwnerReferences()
	var old []metav1.OwnerReference
	if w.Old != nil {
		old = w.Old.GetOwnerReferences()
	}
	if len(now) == len(old) && (len(now) == 0 || equality.Semantic.DeepEqual(now, old)) {
		return nil
	}
	u := w.GetUserInfo()
	if w.GetOperation() != upstream.Create { // who creates an object could have done without it
		decided := cfg.Authorizer.Decide(ctx, u, auth.Attributes{
			Verb: "delete", Namespace: w.GetNamespace(), Resource: w.GetResource().GroupResource(),
			Version: w.GetResource().Version, Subresource: w.GetSubresource(), Name: w.GetName(),
		})
		if !decided.Allowed {
			return upstream.NewForbidden(w, fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %w",
				decided.Why(), because(decided)))
		}
	}
	blocking := newlyBlocking(now, old)
	if len(blocking) == 0 || cfg.Authorizer.Decide(ctx, u, auth.Attributes{
		Verb: "update", Resource: plugins.Everything, Version: "*", Subresource: "finalizers", Name: "*",
	}).Allowed {
		return nil
	}
	for _, ref := range blocking {
		if err := cfg.mayBlock(ctx, w, ref); err != nil {
			return err
		}
	}
	return nil
}

// because is the error behind a decision, which upstream's texts name, although there mostly is none.
func because(d auth.Decision) error {
	if d.Refusal != nil {
		return d.Refusal
	}
	return none{}
}

// none is printed as upstream prints a nil error.
type none struct{}

func (none) Error() string { return "<nil>" }

// newlyBlocking returns the references that block the deletion of their owners, and did not before.
func newlyBlocking(now, old []metav1.OwnerReference) (all []metav1.OwnerReference) {
	blocks := func(ref metav1.OwnerReference) bool { return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion }
	did := map[any]bool{}
	for _, ref := range old {
		did[ref.UID] = blocks(ref)
	}
	for _, ref := range now {
		if blocks(ref) && !did[ref.UID] {
			all = append(all, ref)
		}
	}
	return all
}

// mayBlock returns an error unless the caller may set the finalizers of an owner.
func (cfg Owners) mayBlock(ctx context.Context, w *plugins.Write, ref metav1.OwnerReference) error {
	of, err := cfg.resourcesOf(ref)
	if err != nil {
		return upstream.NewForbidden(w, fmt.Errorf(
			"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w",
			ref.APIVersion, ref.Kind, err))
	}
	for _, r := range of {
		asked := auth.Attributes{Verb: "update", Resource: r.GR(), Version: r.Version, Subresource: "finalizers", Name: ref.Name}
		if r.Namespaced {
			asked.Namespace = w.GetNamespace()
		}
		if decided := cfg.Authorizer.Decide(ctx, w.GetUserInfo(), asked); !decided.Allowed {
			return upstream.NewForbidden(w, fmt.Errorf("cannot set blockOwnerDeletion if an ownerReference refers to a resource "+
				"you can't set finalizers on: %v, %w", decided.Why(), because(decided)))
		}
	}
	return nil
}

// resourcesOf returns the resources of the kind of an owner. Errors: it is not served.
func (cfg Owners) resourcesOf(ref metav1.OwnerReference) (of []*kinds.Resource, err error) {
	gv, err := apischema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	for _, r := range cfg.Resources() {
		if r.GVK() == gv.WithKind(ref.Kind) && r.Through == nil {
			of = append(of, r)
		}
	}
	if len(of) == 0 { // the text of upstream's meta.NoKindMatchError
		return nil, fmt.Errorf("no matches for kind %q in version %q", ref.Kind, ref.APIVersion)
	}
	return of, nil
}
