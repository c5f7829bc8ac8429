// Package scale translates between an object and its scale subresource, a [Scale], which is the
// autoscaling/v1 form of the object's desired and current replicas.
package scale

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// The wire form of a scale: k8s.io/api autoscaling/v1 Scale.
const (
	apiVersion = "autoscaling/v1"
	kind       = "Scale"
)

func gvk() kinds.GroupVersionKind {
	return kinds.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: kind}
}

// Scale is the subresource scale on the wire.
type Scale struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas int32 `json:"replicas,omitempty"`
	} `json:"spec"`
	Status struct {
		Replicas int32  `json:"replicas"`
		Selector string `json:"selector,omitempty"`
	} `json:"status"`
}

// Unset is the desired replicas in the Scale of an object that has none, before a write, which
// must set them: apiextensions registry/customresource/etcd.go invalidSpecReplicas.
const Unset = math.MinInt32

// Read returns the Scale of an object as it is read. Errors: those of Of, and 500 for a
// strict scale without desired replicas, as upstream.
func Read(t kinds.Target, o *wire.Object) (*wire.Object, error) {
	shown, err := Of(t, o, Unset)
	if err != nil || !t.Resource.Scale.Strict {
		return shown, err
	}
	u, err := tree(shown)
	if err != nil {
		return nil, err
	}
	if n, _, err := unstructured.NestedInt64(u.Object, "spec", "replicas"); err != nil || n == Unset {
		return nil, wire.Internal(fmt.Errorf("the spec replicas field %q does not exist", path(t.Resource.Scale.SpecReplicas)))
	}
	return shown, nil
}

// path is a path of a definition as its author writes it.
func path(names []string) string { return "." + strings.Join(names, ".") }

// Of returns the Scale of an object. missing is what a custom resource without desired replicas
// has for them. Errors: 404 for a resource that cannot be scaled, 500 for a custom resource whose
// values have other types.
func Of(t kinds.Target, o *wire.Object, missing int64) (*wire.Object, error) {
	paths := t.Resource.Scale
	if paths == nil {
		return nil, wire.NotFound(t.Resource.GR(), t.Name)
	}
	u, err := tree(o)
	if err != nil {
		return nil, err
	}
	desired, current := replicas(u, paths.SpecReplicas), replicas(u, paths.StatusReplicas)
	if paths.Strict {
		if desired, current, err = checked(u, paths, missing); err != nil {
			return nil, wire.Unknown(err)
		}
	}
	meta := map[string]any{
		"name": u.GetName(), "uid": string(u.GetUID()), "resourceVersion": o.ResourceVersion().String(),
		"creationTimestamp": o.Created().Format(time.RFC3339),
	}
	if u.GetNamespace() != "" {
		meta["namespace"] = u.GetNamespace()
	}
	status := map[string]any{"replicas": current}
	if text := selector(u, paths.Selector); text != "" {
		status["selector"] = text
	}
	spec := map[string]any{}
	if desired != 0 {
		spec["replicas"] = desired // upstream's Go type leaves 0 out
	}
	raw, err := json.Marshal(map[string]any{
		"kind": kind, "apiVersion": apiVersion, "metadata": meta,
		"spec": spec, "status": status,
	})
	if err != nil {
		return nil, wire.Internal(err)
	}
	scale, err := wire.ParseObject(raw, nil)
	if err != nil {
		return nil, wire.Internal(err)
	}
	return scale, nil
}

// checked returns the replicas of a custom resource. Its errors are upstream's, about values that
// have other types.
func checked(u *unstructured.Unstructured, paths *kinds.ScalePaths, missing int64) (desired, current int64, err error) {
	desired, found, err := unstructured.NestedInt64(u.Object, paths.SpecReplicas...)
	if err != nil {
		return 0, 0, err
	}
	if !found {
		desired = missing
	}
	if current, _, err = unstructured.NestedInt64(u.Object, paths.StatusReplicas...); err != nil {
		return 0, 0, err
	}
	if len(paths.Selector) > 0 {
		_, _, err = unstructured.NestedString(u.Object, paths.Selector...)
	}
	return desired, current, err
}

// replicas returns the number at a path; 0 when there is none.
func replicas(u *unstructured.Unstructured, path []string) int64 {
	n, _, err := unstructured.NestedInt64(u.Object, path...)
	if err != nil {
		return 0
	}
	return n
}

// selector returns the label selector at a path as text; the object may have it as text or
// as a LabelSelector.
func selector(u *unstructured.Unstructured, path []string) string {
	if len(path) == 0 {
		return ""
	}
	value, _, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	if err != nil {
		return ""
	}
	switch v := value.(type) {
	case string:
		return v
	case map[string]any:
		if plain, is := plainLabels(v); is {
			return plain.String()
		}
		var wanted metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(v, &wanted); err != nil {
			return ""
		}
		s, err := metav1.LabelSelectorAsSelector(&wanted)
		if err != nil {
			return ""
		}
		return s.String()
	}
	return ""
}

// plainLabels reads a selector that is a map of labels, like that of a
// ReplicationController: all values are strings.
func plainLabels(selector map[string]any) (plain labels.Set, is bool) {
	plain = labels.Set{}
	for name, value := range selector {
		text, is := value.(string)
		if !is {
			return nil, false
		}
		plain[name] = text
	}
	return plain, len(plain) > 0
}

// Decode reads a Scale, and returns the warnings about it. Errors: 400.
func Decode(body []byte, v kinds.FieldValidation) (*Scale, []string, error) {
	var s Scale
	problems, err := kjson.UnmarshalStrict(body, &s)
	if err != nil {
		return nil, nil, wire.BadRequest("the object provided is unrecognized (must be of type Scale): %v (%s)",
			err, kinds.Excerpt(body))
	}
	if s.Kind != "" && s.Kind != kind || s.APIVersion != "" && s.APIVersion != apiVersion {
		return nil, nil, wire.BadRequest("%s in version %q cannot be handled as a Scale: %s is expected",
			s.Kind, s.APIVersion, apiVersion)
	}
	if v == kinds.FieldsStrict && len(problems) > 0 {
		return nil, nil, wire.BadRequest("Scale in version %q cannot be handled as a Scale: %v",
			"v1", runtime.NewStrictDecodingError(problems))
	}
	var warnings []string
	if v == kinds.FieldsWarn {
		for _, p := range problems {
			warnings = append(warnings, p.Error())
		}
	}
	return &s, warnings, nil
}

// Match refuses a Scale of another object than that of its path. Errors: 400.
func (s *Scale) Match(t kinds.Target) error {
	if s.Namespace != "" && s.Namespace != t.Namespace {
		return wire.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if s.Name == "" {
		return wire.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", t.Name)
	}
	if s.Name != t.Name {
		return wire.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", s.Name, t.Name)
	}
	return nil
}

// Set returns the object with the replicas of the Scale. The resourceVersion of the
// Scale, if it has one, is the object's. Errors: 400, 409 for another uid, 422.
func (s *Scale) Set(t kinds.Target, current *wire.Object) (*unstructured.Unstructured, error) {
	if err := s.Match(t); err != nil {
		return nil, err
	}
	if s.UID != "" && s.UID != current.UID() {
		return nil, wire.Conflict(t.Resource.GR(), t.Name, fmt.Sprintf(
			"Precondition failed: UID in precondition: %s, UID in object meta: %s", s.UID, current.UID()))
	}
	if t.Resource.Scale.Strict && s.Spec.Replicas == Unset {
		return nil, wire.BadRequest("the spec replicas field %q cannot be empty", path(t.Resource.Scale.SpecReplicas))
	}
	if s.Spec.Replicas < 0 {
		return nil, wire.Invalid(gvk().GroupKind(), t.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	u, err := tree(current.WithAPIVersion(t.Resource.APIVersion()))
	if err != nil {
		return nil, err
	}
	if s.ResourceVersion != "" && s.ResourceVersion != "0" {
		u.SetResourceVersion(s.ResourceVersion)
	}
	if err := unstructured.SetNestedField(u.Object, int64(s.Spec.Replicas), t.Resource.Scale.SpecReplicas...); err != nil {
		return nil, wire.BadRequest("set %v: %v", t.Resource.Scale.SpecReplicas, err)
	}
	return u, nil
}

func tree(o *wire.Object) (*unstructured.Unstructured, error) {
	content, err := jsontree.Decode(o.JSON())
	if err != nil {
		return nil, wire.Internal(fmt.Errorf("decode the stored object: %w", err))
	}
	return &unstructured.Unstructured{Object: content}, nil
}
