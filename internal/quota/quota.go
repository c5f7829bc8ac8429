// Package quota measures what objects use of the quotas of their namespaces, by the rules of Kubernetes 1.37.
//
// A [Kind] is what can be measured of a resource, and an [Item] one of its objects. A [Table] has the ResourceQuotas of
// each namespace, and a [Ledger] what was charged for objects that are not stored yet. The admission plugin charges
// writes with them, and the controller counts what is there.
//
// The rules are those of kubernetes pkg/quota/v1 (evaluator/core, install) and apiserver pkg/quota/v1, with the feature
// gates of 1.37 at their defaults.
package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Quotas is the resource of ResourceQuotas.
func Quotas() kinds.GroupResource { return kinds.GroupResource{Resource: "resourcequotas"} }

// Item is an object, as quotas see it.
type Item interface {
	// Missing returns an error that names what a quota of these resources requires and the object does not say.
	Missing(required []corev1.ResourceName) error
	// InScope reports whether a scope selects the object. Errors: a selector that is none.
	InScope(s corev1.ScopedResourceSelectorRequirement) (bool, error)
	// Usage returns what the object uses.
	Usage() corev1.ResourceList
}

// Kind measures the objects of a resource. Kinds are comparable by their resource.
type Kind struct {
	Resource kinds.GroupResource

	measures measures
}

// measures is what a kind knows.
type measures interface {
	// matches reports whether a name in a quota limits objects of the kind.
	matches(name corev1.ResourceName) bool
	// item returns an object that was decoded from JSON by decode.
	item(decode func(into any) error) (Item, error)
}

// ignored reports whether objects of a resource are never measured: they are not stored, or are Events.
func ignored(gr kinds.GroupResource) bool {
	switch gr.Group {
	case "authentication.k8s.io", "authorization.k8s.io":
		return true
	case "", "events.k8s.io":
		return gr.Resource == "events" || gr.Resource == "bindings" || gr.Resource == "componentstatuses"
	}
	return false
}

// KindOf returns how objects of a resource of a namespace are measured, and false for one that is not.
// Classes is for ResourceClaims only.
func KindOf(gr kinds.GroupResource, classes Classes) (Kind, bool) {
	if ignored(gr) {
		return Kind{}, false
	}
	var m measures
	switch {
	case gr.Group == resourcev1.GroupName && gr.Resource == "resourceclaims":
		m = deviceClaims{classes}
	case gr.Group != "":
		m = counted{name: countOf(gr)}
	case gr.Resource == "pods":
		m = pods{}
	case gr.Resource == "services":
		m = services{}
	case gr.Resource == "persistentvolumeclaims":
		m = volumeClaims{}
	default:
		m = counted{countOf(gr), formerName(gr)}
	}
	return Kind{Resource: gr, measures: m}, true
}

// formerName is the name of a resource in quotas from before count/ was there; "" if it had none.
func formerName(gr kinds.GroupResource) corev1.ResourceName {
	switch gr.Resource {
	case "configmaps", "resourcequotas", "replicationcontrollers", "secrets":
		return corev1.ResourceName(gr.Resource)
	}
	return ""
}

const countPrefix = "count/"

// countOf is the name by which quotas limit the number of objects of a resource.
func countOf(gr kinds.GroupResource) corev1.ResourceName {
	return corev1.ResourceName(countPrefix + gr.String())
}

// Named returns the resources whose objects a name in a quota may limit.
func Named(name corev1.ResourceName) []kinds.GroupResource {
	text := string(name)
	if counted, is := strings.CutPrefix(text, countPrefix); is {
		resource, group, _ := strings.Cut(counted, ".")
		return []kinds.GroupResource{{Group: group, Resource: resource}}
	}
	if gr := (kinds.GroupResource{Resource: text}); formerName(gr) != "" {
		return []kinds.GroupResource{gr}
	}
	var of []kinds.GroupResource
	for _, gr := range []kinds.GroupResource{
		{Resource: "pods"}, {Resource: "services"}, {Resource: "persistentvolumeclaims"},
	} {
		if k, _ := KindOf(gr, nil); k.Matches(name) {
			of = append(of, gr)
		}
	}
	if mayBeOfDevices(name) {
		of = append(of, kinds.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"})
	}
	return of
}

// Matches reports whether a name in a quota limits objects of the kind.
func (k Kind) Matches(name corev1.ResourceName) bool { return k.measures.matches(name) }

// Matching returns the names of a list that Matches.
func (k Kind) Matching(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range list {
		if k.Matches(name) {
			names = append(names, name)
		}
	}
	return names
}

// Updates reports whether an update of an object of a resource, or of one of its subresources, may change what it uses.
func Updates(gr kinds.GroupResource, subresource string) bool {
	switch {
	case gr.Group == resourcev1.GroupName:
		return gr.Resource == "resourceclaims" && subresource == ""
	case gr.Group != "":
		return false
	}
	switch gr.Resource {
	case "pods":
		return subresource == "" || subresource == "resize"
	case "services":
		return subresource == ""
	case "persistentvolumeclaims":
		return subresource == "" || subresource == "status"
	}
	return false
}

// Item returns an object that decode puts into a Go struct of its kind. Errors: those of decode.
func (k Kind) Item(decode func(into any) error) (Item, error) { return k.measures.item(decode) }

// Rescoped reports whether an update of a pod has changed whether it ends by itself: of other updates of pods quotas
// know nothing.
func Rescoped(now, old Item) bool {
	p, is := now.(pod)
	if !is {
		return true
	}
	was, is := old.(pod)
	return is && p.terminating() != was.terminating()
}

// counted are objects of which the number counts, by up to two names.
type counted struct{ name, former corev1.ResourceName }

func (c counted) matches(name corev1.ResourceName) bool {
	return name == c.name || c.former != "" && name == c.former
}

func (c counted) item(func(any) error) (Item, error) { return c, nil }

// Missing implements Item.
func (counted) Missing([]corev1.ResourceName) error { return nil }

// InScope implements Item.
func (counted) InScope(corev1.ScopedResourceSelectorRequirement) (bool, error) { return false, nil }

// Usage implements Item.
func (c counted) Usage() corev1.ResourceList {
	used := corev1.ResourceList{c.name: number(1)}
	if c.former != "" {
		used[c.former] = number(1)
	}
	return used
}
