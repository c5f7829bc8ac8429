package core

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// checkEphemeralContainers lets containers be added, but not go or change. Of a new
// one it checks the names, and that it asks for nothing that such a container cannot
// have.
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
	others := containers(u, "containers")
	seen := map[string]bool{}
	list, _ := tree.Child(u.Object, "spec")[ephemeral].([]any)
	for i, item := range list {
		container, _ := item.(tree.Object)
		name, _ := container["name"].(string)
		here := at.Index(i)
		if _, old := was[name]; !old {
			errs = append(errs, checkEphemeral(here, container)...)
		}
		_, taken := others[name]
		_, initial := containers(u, "initContainers")[name]
		if taken || initial || seen[name] {
			errs = append(errs, field.Duplicate(here.Child("name"), name))
		}
		seen[name] = true
		if target, _ := container["targetContainerName"].(string); target != "" && others[target] == nil {
			errs = append(errs, field.NotFound(here.Child("targetContainerName"), target))
		}
	}
	return errs
}

func checkEphemeral(at *field.Path, container tree.Object) field.ErrorList {
	var errs field.ErrorList
	name, _ := container["name"].(string)
	if name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		for _, why := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(at.Child("name"), name, why))
		}
	}
	if image, _ := container["image"].(string); image == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	}
	for _, what := range []string{"ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources"} {
		if set := container[what]; set != nil && lengthOf(set) > 0 {
			errs = append(errs, field.Forbidden(at.Child(what), "cannot be set for an Ephemeral Container"))
		}
	}
	return errs
}

func lengthOf(value any) int {
	switch v := value.(type) {
	case tree.Object:
		return len(v)
	case []any:
		return len(v)
	}
	return 1
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
