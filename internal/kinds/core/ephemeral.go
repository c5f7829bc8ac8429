package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

const ephemeral = "ephemeralContainers"

// takeEphemeralContainers copies only the ephemeral containers of a pod.
func takeEphemeralContainers(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	pod := old.DeepCopy()
	tree.Take(tree.Made(pod.Object, "spec"), tree.Child(sent.Object, "spec"), ephemeral)
	pod.SetResourceVersion(sent.GetResourceVersion())
	return pod, nil
}

// checkEphemeralContainers lets containers be added, but not go or change. It checks the whole spec, as upstream.
func checkEphemeralContainers(u, old *unstructured.Unstructured) field.ErrorList {
	at := field.NewPath("spec", ephemeral)
	var errs field.ErrorList
	now, was := containers(u, ephemeral), containers(old, ephemeral)
	for name, before := range was {
		after, still := now[name]
		switch {
		case !still:
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be removed", name)))
		case !equality.Semantic.DeepEqual(after, before):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be changed", name)))
		}
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod); err != nil {
		return append(errs, field.Invalid(at, "", err.Error()))
	}
	return append(podrules.Spec(check.Spec(), &pod.Spec), errs...)
}

// containers are those of a list by name.
func containers(u *unstructured.Unstructured, list string) map[string]tree.Object {
	items, _ := tree.Child(u.Object, "spec")[list].([]any)
	byName := make(map[string]tree.Object, len(items))
	for _, item := range items {
		if container, is := item.(tree.Object); is {
			name, _ := container["name"].(string)
			byName[name] = container
		}
	}
	return byName
}
