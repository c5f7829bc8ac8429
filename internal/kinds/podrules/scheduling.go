package podrules

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// checkScheduling checks what determines the nodes that a pod can run on.
func checkScheduling(at *field.Path, spec *corev1.PodSpec) field.ErrorList {
	var errs field.ErrorList
	if len(spec.NodeSelector) > 0 {
		errs = append(errs, check.Labels(at.Child("nodeSelector"), spec.NodeSelector)...)
	}
	for i := range spec.Tolerations {
		errs = append(errs, Toleration(at.Child("tolerations").Index(i), &spec.Tolerations[i])...)
	}
	if len(spec.SchedulingGates) > 0 {
		errs = append(errs, checkGates(at.Child("schedulingGates"), spec.SchedulingGates)...)
	}
	if spec.Affinity != nil {
		errs = append(errs, checkAffinity(at.Child("affinity"), spec.Affinity)...)
	}
	if len(spec.TopologySpreadConstraints) > 0 {
		errs = append(errs, checkSpread(at.Child("topologySpreadConstraints"), spec.TopologySpreadConstraints)...)
	}
	if spec.PreemptionPolicy != nil {
		errs = append(errs,
			check.OneOf(at, "preemptionPolicy", *spec.PreemptionPolicy, corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

func checkGates(at *field.Path, gates []corev1.PodSchedulingGate) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, gate := range gates {
		errs = append(errs, check.Invalid(at.Index(i), gate.Name, validation.IsQualifiedName(gate.Name))...)
		if seen[gate.Name] {
			errs = append(errs, field.Duplicate(at.Index(i), gate.Name))
		}
		seen[gate.Name] = true
	}
	return errs
}

// Toleration checks what taints of nodes pods tolerate.
func Toleration(at *field.Path, t *corev1.Toleration) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" && !kinds.IsQualified(t.Key) {
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
	}
	if t.Key == "" && t.Operator != corev1.TolerationOpExists {
		errs = append(errs,
			field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
	}
	if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
		errs = append(errs,
			field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
	}
	if t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt {
		// They need a feature gate that is off, and upstream says so in this way.
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator, []corev1.TolerationOperator{
			corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt,
		}))
	} else {
		errs = append(errs,
			check.OneOfIfSet(at, "operator", t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)...)
	}
	if t.Operator == corev1.TolerationOpExists && t.Value != "" {
		errs = append(errs, field.Invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
	}
	if t.Operator == corev1.TolerationOpEqual || t.Operator == "" {
		if why := validation.IsValidLabelValue(t.Value); len(why) > 0 {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Value, strings.Join(why, ";")))
		}
	}
	if t.Effect != "" {
		errs = append(errs, TaintEffect(at.Child("effect"), t.Effect)...)
	}
	return errs
}

// TaintEffect checks what a taint does to pods that do not tolerate it.
func TaintEffect(at *field.Path, effect corev1.TaintEffect) field.ErrorList {
	return check.OneOf(at, "", effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		corev1.TaintEffectNoExecute)
}

func checkAffinity(at *field.Path, a *corev1.Affinity) field.ErrorList {
	const must, should = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		p := at.Child("nodeAffinity")
		if n.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			errs = append(errs, NodeSelector(p.Child(must), n.RequiredDuringSchedulingIgnoredDuringExecution)...)
		}
		for i, term := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			errs = append(errs, checkWeight(p.Child(should).Index(i), term.Weight)...)
			errs = append(errs, checkNodeTerm(p.Child(should).Index(i).Child("preference"), &term.Preference, false)...)
		}
	}
	terms := func(p *field.Path, hard []corev1.PodAffinityTerm, soft []corev1.WeightedPodAffinityTerm) {
		for i := range hard {
			errs = append(errs, checkPodTerm(p.Child(must).Index(i), &hard[i])...)
		}
		for i := range soft {
			errs = append(errs, checkWeight(p.Child(should).Index(i), soft[i].Weight)...)
			errs = append(errs, checkPodTerm(p.Child(should).Index(i).Child("podAffinityTerm"), &soft[i].PodAffinityTerm)...)
		}
	}
	if near := a.PodAffinity; near != nil {
		terms(at.Child("podAffinity"), near.RequiredDuringSchedulingIgnoredDuringExecution,
			near.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if far := a.PodAntiAffinity; far != nil {
		terms(at.Child("podAntiAffinity"), far.RequiredDuringSchedulingIgnoredDuringExecution,
			far.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return errs
}

func checkWeight(at *field.Path, weight int32) field.ErrorList {
	if weight >= 1 && weight <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("weight"), weight, "must be in the range 1-100")}
}

func checkPodTerm(at *field.Path, term *corev1.PodAffinityTerm) field.ErrorList {
	errs := check.LabelSelector(at.Child("labelSelector"), term.LabelSelector)
	errs = append(errs, check.LabelSelector(at.Child("namespaceSelector"), term.NamespaceSelector)...)
	for _, name := range term.Namespaces {
		errs = append(errs, check.Invalid(at.Child("namespace"), name, kinds.LabelName(name))...)
	}
	if term.TopologyKey == "" {
		errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
	}
	for _, keys := range []struct {
		name string
		list []string
	}{{"matchLabelKeys", term.MatchLabelKeys}, {"mismatchLabelKeys", term.MismatchLabelKeys}} {
		if len(keys.list) > 0 && term.LabelSelector == nil {
			errs = append(errs, field.Forbidden(at.Child(keys.name), "must not be specified when labelSelector is not set"))
		}
	}
	return append(errs, metavalidation.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))...)
}

// NodeSelector checks a selector of nodes: of a pod, or of a volume.
func NodeSelector(at *field.Path, s *corev1.NodeSelector) field.ErrorList {
	terms := at.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range s.NodeSelectorTerms {
		errs = append(errs, checkNodeTerm(terms.Index(i), &s.NodeSelectorTerms[i], true)...)
	}
	return errs
}

// checkNodeTerm checks one term of a selector of nodes. Values that no label can have are
// refused only where the term is required.
func checkNodeTerm(at *field.Path, term *corev1.NodeSelectorTerm, isRequired bool) field.ErrorList {
	var errs field.ErrorList
	for i := range term.MatchExpressions {
		p, r := at.Child("matchExpressions").Index(i), &term.MatchExpressions[i]
		errs = append(errs, checkNodeValues(p, r)...)
		errs = append(errs, metavalidation.ValidateLabelName(r.Key, p.Child("key"))...)
		for j, value := range r.Values {
			if isRequired {
				errs = append(errs, check.Invalid(p.Child("values").Index(j), value, validation.IsValidLabelValue(value))...)
			}
		}
	}
	for i := range term.MatchFields {
		errs = append(errs, checkNodeField(at.Child("matchFields").Index(i), &term.MatchFields[i])...)
	}
	return errs
}

// checkNodeValues checks that an operator has the values that it needs.
func checkNodeValues(at *field.Path, r *corev1.NodeSelectorRequirement) field.ErrorList {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.ErrorList{field.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'")}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.ErrorList{
				field.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
			}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			return field.ErrorList{
				field.Required(at.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"),
			}
		}
	default:
		return field.ErrorList{field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator")}
	}
	return nil
}

// checkNodeField checks a requirement for a field of nodes: there is only their name.
func checkNodeField(at *field.Path, r *corev1.NodeSelectorRequirement) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs,
				field.Required(at.Child("values"),
					"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != "metadata.name" {
		return append(errs, field.Invalid(at.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, value := range r.Values {
		errs = append(errs, check.Invalid(at.Child("values").Index(i), value, kinds.SubdomainName(value))...)
	}
	return errs
}

// checkSpread checks how pods are spread over nodes; not their matchLabelKeys.
func checkSpread(at *field.Path, constraints []corev1.TopologySpreadConstraint) field.ErrorList {
	var errs field.ErrorList
	type pair struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	seen := map[pair]bool{}
	for i := range constraints {
		c, p := &constraints[i], at.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, "must be greater than zero"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(p.Child("topologyKey"), "can not be empty"))
		}
		errs = append(errs,
			check.Known(p, "whenUnsatisfiable", c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)...)
		key := pair{c.TopologyKey, c.WhenUnsatisfiable}
		if seen[key] {
			errs = append(errs,
				field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", key.key, key.when)))
		}
		seen[key] = true
		errs = append(errs, check.Positive(p, "minDomains", c.MinDomains)...)
		if c.MinDomains != nil && c.WhenUnsatisfiable != corev1.DoNotSchedule {
			errs = append(errs,
				field.Invalid(p.Child("minDomains"), *c.MinDomains,
					"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not "+string(c.WhenUnsatisfiable)))
		}
		errs = append(errs,
			check.KnownIfSet(p, "nodeAffinityPolicy", c.NodeAffinityPolicy, corev1.NodeInclusionPolicyIgnore,
				corev1.NodeInclusionPolicyHonor)...)
		errs = append(errs,
			check.KnownIfSet(p, "nodeTaintsPolicy", c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore,
				corev1.NodeInclusionPolicyHonor)...)
		errs = append(errs, check.LabelSelector(p.Child("labelSelector"), c.LabelSelector)...)
	}
	return errs
}
