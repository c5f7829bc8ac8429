package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/warning"
)

// managed are the managedFields of an object before plugins have changed it.
type managed struct{ before any }

func managedOf(u *unstructured.Unstructured) managed {
	if u == nil {
		return managed{}
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	return managed{runtime.DeepCopyJSONValue(metadata["managedFields"])}
}

// keep takes back invalid managedFields that plugins have made, and warns about them (apiserver
// handlers/fieldmanager/admission.go).
func (m managed) keep(ctx context.Context, u *unstructured.Unstructured) {
	metadata, is := u.Object["metadata"].(map[string]any)
	if !is {
		return
	}
	if empties(metadata["managedFields"]) {
		delete(metadata, "managedFields")
		return
	}
	err := managedfields.ValidateManagedFields(u.GetManagedFields())
	if err == nil {
		return
	}
	delete(metadata, "managedFields")
	if m.before != nil {
		metadata["managedFields"] = m.before
	}
	warning.AddWarning(ctx, "", fmt.Sprintf(".metadata.managedFields was in an invalid state after admission; "+
		"this could be caused by an outdated mutating admission controller; please fix your requests: %v", err))
}

// empties reports whether a plugin has emptied the list of managers: a decoded object of a built-in
// kind has one empty entry then, which is not an invalid one.
func empties(managers any) bool {
	list, _ := managers.([]any)
	if len(list) != 1 {
		return false
	}
	entry, is := list[0].(map[string]any)
	return is && len(entry) == 0
}
