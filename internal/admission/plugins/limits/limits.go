// Package limits has the admission plugin LimitRanger, which gives containers the defaults of LimitRanges, and refuses
// pods and claims beyond their limits.
package limits

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// annotation says which resources of a pod are defaults of a LimitRange.
const annotation = "kubernetes.io/limit-ranger"

//nolint:gochecknoglobals // names
var (
	pods   = kinds.GroupResource{Resource: "pods"}
	claims = kinds.GroupResource{Resource: "persistentvolumeclaims"}
	ranges = kinds.GroupResource{Resource: "limitranges"}
)

// Table is the LimitRanges.
type Table = plugins.Namespaced[Range]

// Ranges returns an empty table.
func Ranges() *Table { return plugins.NewNamespaced[Range](ranges) }

// LimitRanger is upstream's plugin of this name. Upstream asks LimitRanges of one namespace, and resources of one of
// them, in a random order; here it is that of their names.
func LimitRanger(of *Table) plugins.Plugin {
	p := plugin{of}
	return plugins.Plugin{
		Name: "LimitRanger",
		Concerns: []plugins.Concern{
			{Resource: pods, Operations: []upstream.Operation{upstream.Create}}, // resources stay as they are
			{Resource: pods, Subresource: "resize", Operations: []upstream.Operation{upstream.Update}},
			{Resource: claims, Operations: []upstream.Operation{upstream.Create, upstream.Update}},
		},
		Admit: p.admit, Validate: p.validate,
	}
}

type plugin struct{ ranges *Table }

// of returns the LimitRanges that count for a write: none for that of an object under deletion.
func (p plugin) of(w *plugins.Write) ([]*Range, error) {
	if w.Old != nil && w.Old.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	all, err := p.ranges.In(w.GetNamespace())
	if err != nil {
		return nil, upstream.NewForbidden(w, fmt.Errorf("unable to %v %v at this time because there was an error enforcing "+
			"limit ranges: %w", w.GetOperation(), w.GetResource(), err))
	}
	return all, nil
}

func (p plugin) admit(_ context.Context, w *plugins.Write) error {
	if w.GetResource().Resource != pods.Resource {
		return nil
	}
	all, err := p.of(w)
	if err != nil || len(all) == 0 {
		return err
	}
	spec := tree.Child(w.Object.Object, "spec")
	if err := bounded(all, spec); err != nil {
		return err
	}
	for _, r := range all {
		if set := r.complete(spec); len(set) > 0 {
			notes := w.Object.GetAnnotations()
			if notes == nil {
				notes = map[string]string{}
			}
			notes[annotation] = "LimitRanger plugin set: " + strings.Join(set, "; ")
			w.Object.SetAnnotations(notes)
			if w.GetSubresource() != "" {
				w.Changed() // a resize stores no annotations: upstream drops them after its plugins
			}
		}
	}
	return nil
}

// mostCompared bounds the amounts that the containers of one pod are given, or compared with.
const mostCompared = 500_000

// bounded returns 413 for a pod with too many containers for the amounts of some LimitRanges.
func bounded(all []*Range, spec map[string]any) error {
	containers, amounts := 0, 0
	for _, list := range []string{"containers", "initContainers"} {
		items, _ := spec[list].([]any)
		containers += len(items)
	}
	for _, r := range all {
		amounts += r.amounts()
	}
	if containers*amounts <= mostCompared {
		return nil
	}
	return wire.TooLarge("%d containers and %d amounts of LimitRanges are %d comparisons, limit is %d",
		containers, amounts, containers*amounts, mostCompared)
}

// complete gives containers the defaults, and returns what it has set.
func (r *Range) complete(spec map[string]any) (set []string) {
	for _, of := range []struct{ list, kind string }{{"containers", "container"}, {"initContainers", "init container"}} {
		for c := range tree.Items(spec, of.list) {
			name := plugins.Text(c, "name")
			for _, missing := range []struct {
				in   string
				some []amount
				kind string
			}{{"requests", r.requests, "request"}, {"limits", r.limits, "limit"}} {
				if names := fill(c, missing.in, missing.some); len(names) > 0 {
					set = append(set, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), missing.kind, of.kind, name))
				}
			}
		}
	}
	return set
}

// fill puts those amounts into the requests or limits of a container that are not there, and returns their names.
func fill(container map[string]any, in string, some []amount) (names []string) {
	there := tree.Child(container, "resources", in)
	for _, a := range some {
		if _, has := there[a.resource]; has {
			continue
		}
		if there == nil {
			there = tree.Made(container, "resources", in)
		}
		if there == nil {
			return nil // the rules of the kind say that it is no object
		}
		there[a.resource] = a.quantity.String()
		names = append(names, a.resource)
	}
	return names
}

func (p plugin) validate(_ context.Context, w *plugins.Write) error {
	all, err := p.of(w)
	if err != nil || len(all) == 0 {
		return err
	}
	spec := tree.Child(w.Object.Object, "spec")
	check := checkClaim
	if w.GetResource().Resource == pods.Resource {
		check = checkPod
		if err := bounded(all, spec); err != nil {
			return err
		}
	}
	for _, r := range all {
		errs, err := check(r, spec)
		if err != nil {
			return err
		}
		if all := utilerrors.NewAggregate(errs); all != nil {
			return upstream.NewForbidden(w, all)
		}
	}
	return nil
}

// checkClaim compares what a claim requests.
func checkClaim(r *Range, spec map[string]any) (errs []error, err error) {
	used, err := usageOf(spec)
	if err != nil {
		return nil, err
	}
	for _, l := range r.limited(corev1.LimitTypePersistentVolumeClaim) {
		for _, a := range l.least {
			errs = appendError(errs, a.atLeast(l.of, usage{requests: used.requests})) // limits of a claim are not looked at
		}
		for _, a := range l.most {
			errs = appendError(errs, a.requestAtMost(l.of, used))
		}
	}
	return errs, nil
}

// checkPod compares what the containers of a pod, and all of it, request and are limited to.
func checkPod(r *Range, spec map[string]any) (errs []error, err error) {
	var containers []usage
	var whole *usage
	for _, l := range r.items {
		switch l.of {
		case corev1.LimitTypeContainer:
			if containers == nil {
				if containers, err = containersOf(spec); err != nil {
					return nil, err
				}
			}
			for _, used := range containers {
				errs = l.check(errs, used)
			}
		case corev1.LimitTypePod:
			if whole == nil {
				if whole, err = podOf(spec); err != nil {
					return nil, err
				}
			}
			errs = l.check(errs, *whole)
		case corev1.LimitTypePersistentVolumeClaim:
		}
	}
	return errs, nil
}
