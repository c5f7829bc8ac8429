package core

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// counted are the resources that a quota limits by number: their amounts are integers.
func counted() []corev1.ResourceName {
	return []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers,
		corev1.ResourceSecrets, corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims,
		corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}
}

// computed are those of running pods that scopes select.
func computed() []corev1.ResourceName {
	return []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	}
}

// limitable reports whether a quota can limit a resource without a domain in its name.
func limitable(name corev1.ResourceName) bool {
	return slices.Contains(counted(), name) || slices.Contains(computed(), name) || slices.Contains([]corev1.ResourceName{
		corev1.ResourceEphemeralStorage, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsEphemeralStorage,
	}, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// isWhole reports whether amounts of a resource are integers.
func isWhole(name corev1.ResourceName) bool {
	if slices.Contains(counted(), name) {
		return true
	}
	extended := strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return extended && len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// checkLimited checks what a quota limits, or has counted.
func checkLimited(at *field.Path, amounts corev1.ResourceList) field.ErrorList {
	errs := check.Amounts(at, amounts)
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		at, amount := at.Key(string(name)), amounts[name]
		if !strings.Contains(string(name), "/") && !limitable(name) {
			if len(validation.IsQualifiedName(string(name))) == 0 && name != corev1.ResourceStorage {
				errs = append(errs, field.Invalid(at, name, "must be a standard resource type or fully qualified"))
			}
			errs = append(errs, field.Invalid(at, name, "must be a standard resource for quota"))
		}
		if isWhole(name) && amount.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, amount.String(), "must be an integer"))
		}
	}
	return errs
}

// selects reports whether a scope fits a resource that a quota limits.
func selects(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return slices.Contains(computed(), name)
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	}
	return true
}

// isScope reports whether there is such a scope.
func isScope(scope corev1.ResourceQuotaScope) bool {
	return scope == corev1.ResourceQuotaScopePriorityClass || scope == corev1.ResourceQuotaScopeVolumeAttributesClass ||
		isBare(scope)
}

// isBare reports whether a scope has no values.
func isBare(scope corev1.ResourceQuotaScope) bool {
	return slices.Contains([]corev1.ResourceQuotaScope{
		corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity,
	}, scope)
}

// checkKnownScopes checks that there are such scopes. Errors show the one, or all of a list.
func checkKnownScopes(at *field.Path, scopes []corev1.ResourceQuotaScope, all bool) field.ErrorList {
	var errs field.ErrorList
	for _, scope := range scopes {
		if !isScope(scope) {
			shown := any(scope)
			if all {
				shown = scopes
			}
			errs = append(errs, field.Invalid(at, shown, "unsupported scope"))
		}
	}
	return errs
}

// checkScopes checks that the scopes at a path fit what the quota limits, and each other; value is what errors show.
func checkScopes(
	at *field.Path, scopes []corev1.ResourceQuotaScope, of *corev1.ResourceQuotaSpec, value any,
) field.ErrorList {
	var errs field.ErrorList
	// Upstream has an equal error for each name and each scope, of which clients see one. Few scopes select
	// anything, however many there are.
	for scope := range sets.New(scopes...) {
		if isScope(scope) && misfits(scope, of.Hard) {
			errs = append(errs, field.Invalid(at, value, "unsupported scope applied to resource"))
			break
		}
	}
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			errs = append(errs, field.Invalid(at, of.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

// misfits reports whether something is limited that a scope does not select.
func misfits(scope corev1.ResourceQuotaScope, hard corev1.ResourceList) bool {
	for name := range hard {
		if limitable(name) && !selects(scope, name) {
			return true
		}
	}
	return false
}

// checkScopeSelector checks the requirements of a quota's selector, whose paths have no index, as upstream's.
func checkScopeSelector(of *corev1.ResourceQuotaSpec) field.ErrorList {
	if of.ScopeSelector == nil {
		return nil
	}
	at := check.Spec("scopeSelector", "matchExpressions")
	var errs field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	for _, r := range of.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		if isBare(r.ScopeName) && r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator,
				"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "+
					"ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "+
					"ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"),
					"must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) > 0 {
				errs = append(errs, field.Invalid(at.Child("values"), r.Values,
					"must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	errs = append(errs, checkKnownScopes(at.Child("scopeName"), scopes, false)...)
	return append(errs, checkScopes(at, scopes, of, of.ScopeSelector)...)
}
