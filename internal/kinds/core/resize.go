package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// What a resize changes of each container.
const (
	resources    = "resources"
	resizePolicy = "resizePolicy"
)

// takeResources copies only the resources of a pod and of its containers, and what their change does. Containers that
// are not those of the pod are copied whole: checkResize refuses them.
func takeResources(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	pod := old.DeepCopy()
	pod.SetResourceVersion(sent.GetResourceVersion())
	spec, wanted := tree.Made(pod.Object, "spec"), tree.Child(sent.Object, "spec")
	for _, list := range []string{"containers", "initContainers"} {
		if !sameNames(spec, wanted, list) {
			tree.Take(spec, wanted, list)
			continue
		}
		containers, _ := spec[list].([]any)
		i := 0
		for c := range tree.Items(wanted, list) {
			container, _ := containers[i].(tree.Object)
			tree.Take(container, c, resources)
			tree.Take(container, c, resizePolicy)
			podspec.RequestLimits(tree.Child(container, resources))
			i++
		}
	}
	if wanted[resources] != nil { // old clients do not know it
		tree.Take(spec, wanted, resources)
	}
	podspec.CompleteResources(spec)
	return pod, nil
}

// sameNames reports whether two specs have the same containers in the same order.
func sameNames(spec, wanted tree.Object, list string) bool {
	names := func(of tree.Object) []string {
		var all []string
		for c := range tree.Items(of, list) {
			all = append(all, tree.Text(c, "name"))
		}
		return all
	}
	return slices.Equal(names(spec), names(wanted))
}

// checkResize checks a pod with other resources: upstream's ValidatePodResize, with its texts.
func checkResize(u, before *unstructured.Unstructured) field.ErrorList {
	o, old := &corev1.Pod{}, &corev1.Pod{}
	for into, from := range map[*corev1.Pod]*unstructured.Unstructured{o: u, old: before} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, into); err != nil {
			return field.ErrorList{field.InternalError(nil, err)} // both were decoded by the type
		}
	}
	whole := field.NewPath("")
	if _, static := old.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return field.ErrorList{field.Forbidden(whole, "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(whole, "windows pods cannot be resized")}
	}
	at, errs := check.Spec(), validatePod(o)
	quality := string(old.Status.QOSClass)
	if quality == "" {
		quality = podspec.ServiceQuality(tree.Child(before.Object, "spec"))
	}
	if quality != podspec.ServiceQuality(tree.Child(u.Object, "spec")) {
		errs = append(errs, field.Invalid(at, o.Status.QOSClass, "Pod QOS Class may not change as a result of resizing"))
	}
	if !canResize(old) {
		errs = append(errs, field.Forbidden(at, "Pod running on node without support for resize"))
	}
	errs = append(errs, checkWholeResize(at, &o.Spec, &old.Spec)...)
	order := checkOrder(at, "containers", o.Spec.Containers, old.Spec.Containers)
	order = append(order, checkOrder(at, "initContainers", o.Spec.InitContainers, old.Spec.InitContainers)...)
	if len(order) > 0 {
		return append(errs, order...)
	}
	for i := range old.Spec.InitContainers {
		errs = append(errs, checkRemoved(at.Child("initContainers").Index(i).Child(resources), "resource ",
			&o.Spec.InitContainers[i].Resources, &old.Spec.InitContainers[i].Resources)...)
	}
	for i := range old.Spec.Containers {
		errs = append(errs, checkRemoved(at.Child("containers").Index(i).Child(resources), "resource ",
			&o.Spec.Containers[i].Resources, &old.Spec.Containers[i].Resources)...)
	}
	for i := range old.Spec.Containers {
		if !onlyShares(&o.Spec.Containers[i], &old.Spec.Containers[i]) {
			errs = append(errs, field.Forbidden(at, "only cpu and memory resources are mutable"))
		}
	}
	for i := range old.Spec.InitContainers {
		errs = append(errs, checkInitResize(at.Child("initContainers").Index(i), &o.Spec.InitContainers[i],
			&old.Spec.InitContainers[i])...)
	}
	return errs // the rest is what takeResources has left
}

// canResize reports whether the node of a pod says that it can do so, or the pod does not run yet.
func canResize(pod *corev1.Pod) bool {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	return i < 0 || pod.Status.ContainerStatuses[i].Resources != nil
}

// checkOrder checks that the containers are the same.
func checkOrder(at *field.Path, list string, now, was []corev1.Container) field.ErrorList {
	if len(now) != len(was) {
		return field.ErrorList{field.Forbidden(at.Child(list), list+" may not be added or removed on resize")}
	}
	var errs field.ErrorList
	for i := range was {
		if now[i].Name != was[i].Name {
			errs = append(errs,
				field.Forbidden(at.Child(list).Index(i).Child("name"), list+" may not be renamed or reordered on resize"))
		}
	}
	return errs
}

// checkWholeResize checks the change of the resources of a pod as a whole.
func checkWholeResize(at *field.Path, now, was *corev1.PodSpec) field.ErrorList {
	if now.Resources == nil {
		if was.Resources != nil {
			return field.ErrorList{field.Forbidden(at.Child(resources), "pod-level resources cannot be removed")}
		}
		return nil
	}
	before := was.Resources
	if before == nil {
		before = &corev1.ResourceRequirements{}
	}
	if len(now.Resources.Requests)+len(now.Resources.Limits)+len(before.Requests)+len(before.Limits) == 0 {
		return nil
	}
	errs := checkRemoved(at.Child(resources), "pod-level resource ", now.Resources, before)
	if !equality.Semantic.DeepEqual(withShares(*now.Resources, before), before) {
		errs = append(errs, field.Forbidden(at, "only cpu and memory resources are mutable at pod-level"))
	}
	return errs
}

// checkRemoved checks that no resource is gone.
func checkRemoved(at *field.Path, what string, now, was *corev1.ResourceRequirements) field.ErrorList {
	var errs field.ErrorList
	if removed(now.Requests, was.Requests) {
		errs = append(errs, field.Forbidden(at.Child("requests"), what+"requests cannot be removed"))
	}
	if removed(now.Limits, was.Limits) {
		errs = append(errs, field.Forbidden(at.Child("limits"), what+"limits cannot be removed"))
	}
	return errs
}

func removed(now, was corev1.ResourceList) bool {
	for name := range was {
		if _, still := now[name]; !still {
			return true
		}
	}
	return false
}

// checkInitResize checks the change of an initial container, which is one while it runs.
func checkInitResize(at *field.Path, now, was *corev1.Container) field.ErrorList {
	if equality.Semantic.DeepEqual(now, was) {
		return nil
	}
	var errs field.ErrorList
	if !onlyShares(now, was) {
		errs = append(errs, field.Forbidden(at, "only cpu and memory resources for init or sidecar containers are mutable"))
	}
	if p := now.RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
		return errs
	}
	for _, policy := range now.ResizePolicy {
		if policy.RestartPolicy == corev1.RestartContainer {
			errs = append(errs,
				field.Forbidden(at, "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"))
		}
	}
	return errs
}

// onlyShares reports whether a container has other processors and memory at most.
func onlyShares(now, was *corev1.Container) bool {
	one := *now
	one.Resources = *withShares(now.Resources, &was.Resources)
	return equality.Semantic.DeepEqual(&one, was)
}

// withShares returns resources with the processors and the memory of others.
func withShares(r corev1.ResourceRequirements, of *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	one := func(list, of corev1.ResourceList) corev1.ResourceList {
		all := corev1.ResourceList{}
		for name, amount := range list {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
				all[name] = amount
			}
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount, has := of[name]; has {
				all[name] = amount
			}
		}
		return all
	}
	r.Requests, r.Limits = one(r.Requests, of.Requests), one(r.Limits, of.Limits)
	return &r
}
