package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/component-helpers/resource"

	"github.com/gapless-io/gapless/internal/kinds"
)

func podCount() corev1.ResourceName { return countOf(kinds.GroupResource{Resource: "pods"}) }

// pods are measured by what their containers request, and may use.
type pods struct{}

func (pods) matches(name corev1.ResourceName) bool {
	return slices.Contains(ofPods, name) || name == podCount() ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) || isExtendedInQuotas(name)
}

var ofPods = []corev1.ResourceName{ //nolint:gochecknoglobals // a constant table
	corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
}

// isExtendedInQuotas reports whether a name in a quota limits requests of an extended resource, or of a DeviceClass by
// its implicit name. Of extended resources only requests can be limited.
func isExtendedInQuotas(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		(!isNative(name) || strings.HasPrefix(string(name), corev1.ResourceImplicitExtendedClaimsPerClass))
}

// isNative reports whether Kubernetes itself defines a resource.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// isExtended reports whether a container can request a resource as an extended one.
func isExtended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	if isNative(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

func (pods) item(decode func(any) error) (Item, error) {
	var p pod
	err := decode(&p.Pod)
	return p, err
}

// pod is a Pod.
type pod struct{ corev1.Pod }

// Missing implements Item: of a quota for processors or memory all containers must say what they request.
func (p pod) Missing(required []corev1.ResourceName) error {
	if resource.IsPodLevelResourcesSet(&p.Pod) {
		return nil
	}
	missing := map[string][]string{} // containers by resources
	note := func(containers []corev1.Container) {
		for _, c := range containers {
			for _, name := range required {
				if !says(c.Resources, name) && !slices.Contains(missing[string(name)], c.Name) {
					missing[string(name)] = append(missing[string(name)], c.Name)
				}
			}
		}
	}
	note(p.Spec.Containers)
	note(p.Spec.InitContainers)
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		slices.Sort(missing[name])
		parts = append(parts, name+" for: "+strings.Join(missing[name], ","))
	}
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}

// says reports whether a container says how much of a resource it wants; true for those of which it need not.
func says(r corev1.ResourceRequirements, name corev1.ResourceName) bool {
	list := r.Requests
	if limited, is := strings.CutPrefix(string(name), "limits."); is {
		list, name = r.Limits, corev1.ResourceName(limited)
	}
	name = corev1.ResourceName(strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		return true
	}
	_, is := list[name]
	return is
}

// InScope implements Item.
func (p pod) InScope(s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	return p.scopes().InScope(s)
}

// podScopes is what scopes look at.
type podScopes struct {
	terminating, bestEffort, crosses bool
	class                            string
}

func (p pod) scopes() podScopes {
	return podScopes{
		terminating: p.terminating(), bestEffort: p.bestEffort(), crosses: p.crossesNamespaces(),
		class: p.Spec.PriorityClassName,
	}
}

// InScope implements scopes.
func (p podScopes) InScope(s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	switch s.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return p.terminating, nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !p.terminating, nil
	case corev1.ResourceQuotaScopeBestEffort:
		return p.bestEffort, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !p.bestEffort, nil
	case corev1.ResourceQuotaScopePriorityClass:
		return p.inPriorityClass(s)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return p.crosses, nil
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
	}
	return false, nil
}

func (p pod) terminating() bool {
	return p.Spec.ActiveDeadlineSeconds != nil && *p.Spec.ActiveDeadlineSeconds >= 0
}

func (p podScopes) inPriorityClass(s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	if s.Operator == corev1.ScopeSelectorOpExists {
		return p.class != "", nil
	}
	selector, err := selectorOf(s)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err) // upstream's text
	}
	var of labels.Set
	if p.class != "" {
		of = labels.Set{string(s.ScopeName): p.class}
	}
	return selector.Matches(of), nil
}

// bestEffort reports whether the pod's class of service is BestEffort: none of its containers, or it itself if it says
// so, requests or limits processors or memory (kubernetes pkg/apis/core/v1/helper/qos).
func (p pod) bestEffort() bool {
	if class := p.Status.QOSClass; class != "" {
		return class == corev1.PodQOSBestEffort
	}
	if resource.IsPodLevelResourcesSet(&p.Pod) {
		return wantsNothing(*p.Spec.Resources)
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if !wantsNothing(c.Resources) {
			return false
		}
	}
	return true
}

func wantsNothing(r corev1.ResourceRequirements) bool {
	return r.Requests.Cpu().IsZero() && r.Requests.Memory().IsZero() && r.Limits.Cpu().IsZero() && r.Limits.Memory().IsZero()
}

func (p pod) crossesNamespaces() bool {
	if p.Spec.Affinity == nil {
		return false
	}
	crosses := func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) != 0 || t.NamespaceSelector != nil }
	weighted := func(t corev1.WeightedPodAffinityTerm) bool { return crosses(t.PodAffinityTerm) }
	if a := p.Spec.Affinity.PodAffinity; a != nil &&
		(slices.ContainsFunc(a.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
			slices.ContainsFunc(a.PreferredDuringSchedulingIgnoredDuringExecution, weighted)) {
		return true
	}
	a := p.Spec.Affinity.PodAntiAffinity
	return a != nil && (slices.ContainsFunc(a.RequiredDuringSchedulingIgnoredDuringExecution, crosses) ||
		slices.ContainsFunc(a.PreferredDuringSchedulingIgnoredDuringExecution, weighted))
}

// Usage implements Item. A pod that has ended counts as an object only, and so does one whose time to end is over.
func (p pod) Usage() corev1.ResourceList {
	used := corev1.ResourceList{podCount(): number(1)}
	if !p.running(time.Now()) {
		return used
	}
	o := resource.PodResourcesOptions{UseStatusResources: true}
	requests, limits := resource.PodRequests(&p.Pod, o), resource.PodLimits(&p.Pod, o)
	used[corev1.ResourcePods] = number(1)
	for name, q := range requests {
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			used[name], used[corev1.DefaultResourceRequestsPrefix+name] = q, q
		case isExtended(name):
			used[corev1.DefaultResourceRequestsPrefix+name] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, has := limits[name]; has {
			used["limits."+name] = q
		}
	}
	return used
}

// running reports whether the pod counts for more than being an object.
func (p pod) running(now time.Time) bool {
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return false
	}
	end := p.ends()
	return end.IsZero() || !now.After(end)
}

// ends is when a pod under deletion no longer counts; zero if it is not.
func (p pod) ends() time.Time {
	if p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil {
		return time.Time{}
	}
	return p.DeletionTimestamp.Add(time.Duration(*p.DeletionGracePeriodSeconds) * time.Second)
}
