package podrules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// checkNeeds checks the resources of a container; claims are those of its pod.
func checkNeeds(at *field.Path, c *corev1.Container, claims map[string]bool, restart corev1.RestartPolicy) field.ErrorList {
	var errs field.ErrorList
	if len(c.ResizePolicy) > 0 {
		errs = append(errs, checkResize(at.Child("resizePolicy"), c.ResizePolicy, restart)...)
	}
	if len(c.Resources.Claims) > 0 {
		errs = append(errs, checkClaimNames(at.Child("resources", "claims"), c.Resources.Claims, claims)...)
	}
	if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
		errs = append(errs, checkResources(at.Child("resources"), &c.Resources)...)
	}
	return errs
}

// checkResources checks the names and amounts of resources, and that no more is requested
// than the limit. Resources that cannot be shared are requested as they are limited.
func checkResources(at *field.Path, r *corev1.ResourceRequirements) field.ErrorList {
	errs := checkAmounts(at.Child("limits"), r.Limits)
	errs = append(errs, checkAmounts(at.Child("requests"), r.Requests)...)
	return append(errs, checkLimits(at, r)...)
}

// checkLimits checks requests against limits.
func checkLimits(at *field.Path, r *corev1.ResourceRequirements) field.ErrorList {
	var errs field.ErrorList
	requests := at.Child("requests")
	for _, name := range sorted(r.Requests) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		switch shared := isNative(name) && !isHuge(name); {
		case !limited && !shared:
			errs = append(errs, field.Required(at.Child("limits"), "Limit must be set for non overcommitable resources"))
		case !limited:
		case !shared && request.Cmp(limit) != 0:
			errs = append(errs,
				field.Invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case request.Cmp(limit) > 0:
			errs = append(errs,
				field.Invalid(requests, request.String(),
					fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	has := func(is func(corev1.ResourceName) bool) bool {
		for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
			for name := range list {
				if is(name) {
					return true
				}
			}
		}
		return false
	}
	if has(isHuge) && !has(func(n corev1.ResourceName) bool { return n == corev1.ResourceCPU || n == corev1.ResourceMemory }) {
		errs = append(errs, field.Forbidden(at, "HugePages require cpu or memory"))
	}
	return errs
}

// checkWhole checks the resources of a whole pod, and that its containers fit into them.
func checkWhole(at *field.Path, spec *corev1.PodSpec) field.ErrorList {
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(at, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	if spec.Resources.Claims != nil {
		errs = append(errs, field.Forbidden(at.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, checkShares(at.Child("limits"), spec.Resources.Limits, checkWholeName)...)
	errs = append(errs, checkShares(at.Child("requests"), spec.Resources.Requests, checkWholeName)...)
	errs = append(errs, checkLimits(at, spec.Resources)...)
	total := totals(spec, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests })
	for _, name := range sorted(total) {
		sum := total[name]
		if whole, has := spec.Resources.Requests[name]; has && sum.Cmp(whole) > 0 {
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container requests of "+sum.String()))
		}
	}
	total = totals(spec, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits })
	for _, name := range sorted(total) {
		sum := total[name]
		if whole, has := spec.Resources.Limits[name]; has && isHuge(name) && sum.Cmp(whole) > 0 {
			errs = append(errs, field.Invalid(at.Child("limits").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container limits of "+sum.String()))
		}
	}
	for i := range spec.Containers {
		limits := spec.Containers[i].Resources.Limits
		for _, name := range sorted(limits) {
			limit := limits[name]
			if whole, has := spec.Resources.Limits[name]; has && limit.Cmp(whole) > 0 {
				errs = append(errs,
					field.Invalid(at.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
						"must be less than or equal to pod limits of "+whole.String()))
			}
		}
	}
	return errs
}

// totals are what the containers of a pod need at a time: the sum of those that run together, or what an initial
// container needs besides the sidecars before it.
func totals(spec *corev1.PodSpec, of func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	sums, most := corev1.ResourceList{}, corev1.ResourceList{}
	add := func(c *corev1.Container) {
		for name, amount := range of(&c.Resources) {
			sum := sums[name]
			sum.Add(amount)
			sums[name] = sum
		}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
			continue
		}
		for name, amount := range of(&c.Resources) {
			need := sums[name].DeepCopy()
			need.Add(amount)
			if have := most[name]; need.Cmp(have) > 0 {
				most[name] = need
			}
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	for name, need := range most {
		if sum := sums[name]; need.Cmp(sum) > 0 {
			sums[name] = need
		}
	}
	return sums
}

// sorted returns the names of resources in order.
func sorted(amounts corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(amounts))
	for name := range amounts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func isHuge(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// isNative reports whether a resource is one of Kubernetes.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// checkName checks that there is such a resource at all.
func checkName(at *field.Path, name corev1.ResourceName) field.ErrorList {
	errs := check.Invalid(at, string(name), validation.IsQualifiedName(string(name)))
	if len(errs) == 0 && !strings.Contains(string(name), "/") && !isStandard(name) {
		errs = append(errs, field.Invalid(at, string(name), "must be a standard resource type or fully qualified"))
	}
	return errs
}

// isStandard reports whether a name without a slash is that of a resource, even if containers cannot have it.
func isStandard(name corev1.ResourceName) bool {
	text := string(name)
	switch strings.TrimPrefix(strings.TrimPrefix(text, "requests."), "limits.") {
	case "cpu", "memory", "ephemeral-storage":
		return true
	case "storage":
		return !strings.HasPrefix(text, "limits.")
	}
	switch text {
	case "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
		"persistentvolumeclaims", "services.nodeports", "services.loadbalancers":
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

// checkShares checks the names of resources with a rule, and their amounts.
func checkShares(at *field.Path, amounts corev1.ResourceList,
	rule func(*field.Path, corev1.ResourceName) field.ErrorList,
) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(amounts) {
		amount := amounts[name]
		p := at.Key(string(name))
		errs = append(errs, rule(p, name)...)
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(p, amount.String(), "must be greater than or equal to 0"))
		}
		errs = append(errs, checkPages(p, name, amount)...)
	}
	return errs
}

// checkWholeName checks that whole pods can have a resource.
func checkWholeName(at *field.Path, name corev1.ResourceName) field.ErrorList {
	if name == corev1.ResourceCPU || name == corev1.ResourceMemory || isHuge(name) {
		return nil
	}
	if errs := checkName(at, name); len(errs) > 0 {
		return errs
	}
	return field.ErrorList{field.NotSupported(at, name, []string{
		string(corev1.ResourceCPU), corev1.ResourceHugePagesPrefix, string(corev1.ResourceMemory),
	})}
}

// checkPages checks that an amount of huge pages is one of whole pages.
func checkPages(at *field.Path, name corev1.ResourceName, amount resource.Quantity) field.ErrorList {
	if !isHuge(name) {
		return nil
	}
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err == nil && size.Value() > 0 && amount.Value()%size.Value() != 0 {
		return field.ErrorList{field.Invalid(at, amount.String(),
			fmt.Sprintf("%s is not positive integer multiple of %s", amount.String(), name))}
	}
	return nil
}

// checkAmounts checks resources that containers can have.
func checkAmounts(at *field.Path, amounts corev1.ResourceList) field.ErrorList {
	errs := check.Amounts(at, amounts)
	for _, name := range sorted(amounts) {
		amount := amounts[name]
		switch {
		case isHuge(name):
			errs = append(errs, checkPages(at.Key(string(name)), name, amount)...)
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
		case !strings.Contains(string(name), "/"):
			if len(validation.IsQualifiedName(string(name))) == 0 {
				errs = append(errs, checkName(at.Key(string(name)), name)...)
			}
			errs = append(errs, field.Invalid(at.Key(string(name)), name, "must be a standard resource for containers"))
		case isNative(name):
		case len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) > 0 ||
			strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix):
			errs = append(errs, field.Invalid(at.Key(string(name)), name, "doesn't follow extended resource name standard"))
		case amount.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.String(), "must be an integer"))
		}
	}
	return errs
}

// checkResize checks what a change of resources does to a container.
func checkResize(at *field.Path, policies []corev1.ContainerResizePolicy, restart corev1.RestartPolicy) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.ResourceName]bool{}
	for i, p := range policies {
		if seen[p.ResourceName] {
			errs = append(errs, field.Duplicate(at.Index(i), p.ResourceName))
		}
		seen[p.ResourceName] = true
		errs = append(errs, check.OneOf(at, "", p.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, check.OneOf(at, "", p.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)...)
		if restart == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(at, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

// checkClaims checks the claims of devices of a pod, and returns their names.
func checkClaims(spec *field.Path, claims []corev1.PodResourceClaim) (map[string]bool, field.ErrorList) {
	if len(claims) == 0 {
		return nil, nil
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i, claim := range claims {
		at := spec.Child("resourceClaims").Index(i)
		errs = append(errs, check.Required(at, "name", claim.Name, kinds.LabelName)...)
		if claim.Name != "" && names[claim.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), claim.Name))
		}
		names[claim.Name] = true
		of, template := claim.ResourceClaimName, claim.ResourceClaimTemplateName
		switch {
		case of != nil && template != nil:
			errs = append(errs,
				field.Invalid(at, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case of == nil && template == nil:
			errs = append(errs, field.Invalid(at, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if of != nil {
			errs = append(errs, check.Invalid(at.Child("resourceClaimName"), *of, kinds.SubdomainName(*of))...)
		}
		if template != nil {
			errs = append(errs,
				check.Invalid(at.Child("resourceClaimTemplateName"), *template, kinds.SubdomainName(*template))...)
		}
	}
	return names, errs
}

// checkClaimNames checks which of the claims of its pod a container uses.
func checkClaimNames(at *field.Path, used []corev1.ResourceClaim, claims map[string]bool) field.ErrorList {
	var errs field.ErrorList
	all := "" // made once, for all errors
	seen := map[string]map[string]bool{}
	for i, claim := range used {
		p := at.Index(i)
		errs = append(errs, check.Required(p, "", claim.Name, nil)...)
		if claim.Request != "" {
			errs = append(errs, check.Invalid(p.Child("request"), claim.Request, kinds.LabelName(claim.Request))...)
		}
		before := seen[claim.Name]
		if len(before) > 0 && (claim.Request == "" || before[""] || before[claim.Request]) {
			errs = append(errs, field.Duplicate(p, claim.Name))
		}
		if before == nil {
			before = map[string]bool{}
			seen[claim.Name] = before
		}
		before[claim.Request] = true
		if !claims[claim.Name] {
			missing := field.NotFound(p, claim.Name)
			if all == "" {
				all = "must be one of the names in pod.spec.resourceClaims"
				if len(claims) == 0 {
					all += " which is empty"
				} else {
					all += ": " + strings.Join(slices.Sorted(maps.Keys(claims)), ", ")
				}
			}
			missing.Detail = all
			errs = append(errs, missing)
		}
	}
	return errs
}
