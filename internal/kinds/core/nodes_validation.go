package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validateNode validates a Node.
func validateNode(o *corev1.Node) field.ErrorList {
	// Upstream's path is in metadata.
	errs := checkTaints(field.NewPath("metadata", "taints"), o.Spec.Taints)
	at := check.Spec("podCIDRs")
	for i, block := range o.Spec.PodCIDRs {
		errs = append(errs, check.CIDR(at.Index(i), block, nil)...)
	}
	errs = append(errs,
		check.OnePerFamily(at, o.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family", check.ParseCIDR)...)
	errs = append(errs, checkQuantities(field.NewPath("status", "capacity"), o.Status.Capacity)...)
	return append(errs, checkQuantities(field.NewPath("status", "allocatable"), o.Status.Allocatable)...)
}

// validateNodeUpdate validates the change of a Node: what the controllers of the cloud and of the network
// have assigned stays. An update that leaves it out is refused, and not completed.
func validateNodeUpdate(o, old *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	if was := old.Spec.PodCIDRs; len(was) > 0 {
		change := field.Forbidden(check.Spec("podCIDRs"), `node updates may not change podCIDR except from "" to valid`)
		if len(was) != len(o.Spec.PodCIDRs) {
			errs = append(errs, change)
		} else {
			for i, block := range was {
				if block != o.Spec.PodCIDRs[i] {
					errs = append(errs, change)
				}
			}
		}
	}
	switch was, now := old.Spec.ProviderID, o.Spec.ProviderID; {
	case was == "" || was == now:
	case now == "":
		errs = append(errs, field.Invalid(check.Spec("providerID"), nil, "field cannot be cleared once set"))
	default:
		errs = append(errs, field.Invalid(check.Spec("providerID"), nil, "field cannot be modified once set"))
	}
	if o.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(check.Spec("externalID"), "may not be updated"))
	}
	return errs
}

// checkQuantities checks the resources of a node; their names are fields of upstream's
// paths.
func checkQuantities(at *field.Path, amounts corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for name, amount := range amounts {
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Child(string(name)), amount.String(), "must be greater than or equal to 0"))
		}
	}
	return errs
}

func checkTaints(at *field.Path, taints []corev1.Taint) field.ErrorList {
	var errs field.ErrorList
	type pair struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[pair]bool{}
	for i, t := range taints {
		p := at.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, p.Child("key"))...)
		if why := validation.IsValidLabelValue(t.Value); len(why) > 0 {
			errs = append(errs, field.Invalid(p.Child("value"), t.Value, strings.Join(why, ";")))
		}
		errs = append(errs, podrules.TaintEffect(p.Child("effect"), t.Effect)...)
		key := pair{t.Key, t.Effect}
		if seen[key] {
			again := field.Duplicate(p, t)
			again.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, again)
		}
		seen[key] = true
	}
	return errs
}
