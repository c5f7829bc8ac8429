package custom_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
)

// status returns the status of a definition.
func status(t *testing.T, u *unstructured.Unstructured) apiextensionsv1.CustomResourceDefinitionStatus {
	t.Helper()
	return typed(t, u).Status
}

func TestEstablishFillsInTheStatus(t *testing.T) {
	got := status(t, definition(t, "foos", kinds.NewCatalog()))
	at := metav1.NewTime(now())
	want := apiextensionsv1.CustomResourceDefinitionStatus{
		AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{
			Plural: "foos", Singular: "foo", Kind: "Foo", ListKind: "FooList", ShortNames: []string{"fo"},
			Categories: []string{"all"},
		},
		StoredVersions: []string{"v1"},
		Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			{
				Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: at,
				Reason: "NoConflicts", Message: "no conflicts found",
			},
			{
				Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: at,
				Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
			},
			{
				Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
				LastTransitionTime: at,
				Reason:             "UnapprovedAnnotation", Message: `not approved: "unapproved, experimental-only; sample"`,
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestNewStorageVersionIsAddedToStoredVersions(t *testing.T) {
	u := definition(t, "foos", kinds.NewCatalog())
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for i, storage := range []bool{true, false} {
		v, _ := versions[i].(map[string]any)
		v["storage"] = storage
	}
	if err := unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	before := u.DeepCopy()
	custom.DefaultDefinition(u.Object)
	if errs := custom.CheckDefinitionUpdate(typed(t, u), typed(t, before)); len(errs) > 0 {
		t.Errorf("it is refused: %v", errs.ToAggregate())
	}
	if err := custom.Establish(u, kinds.NewCatalog(), now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	got := status(t, u)
	if want := []string{"v1", "v1alpha1"}; !slices.Equal(want, got.StoredVersions) {
		t.Errorf("got stored versions %q, want %q", got.StoredVersions, want)
	}
	for _, c := range got.Conditions {
		if !c.LastTransitionTime.Time.Equal(now()) {
			t.Errorf("%s: the time of the last transition moved to %v", c.Type, c.LastTransitionTime)
		}
	}
}

func TestNamesInUseAreNotAccepted(t *testing.T) {
	const group = "samplecontroller.k8s.io"
	other := &kinds.Resource{
		Group: group, Version: "v1", StorageVersion: "v1", Plural: "others", Singular: "fo", Kind: "Foo", ListKind: "OtherList",
	}
	u := definition(t, "foos", kinds.NewCatalog(other))
	got := status(t, u)
	if got.AcceptedNames.Plural != "foos" || got.AcceptedNames.Kind != "" || got.AcceptedNames.ShortNames != nil {
		t.Errorf("got accepted names %+v", got.AcceptedNames)
	}
	if c := got.Conditions[0]; c.Type != apiextensionsv1.NamesAccepted || c.Status != apiextensionsv1.ConditionFalse ||
		!strings.Contains(c.Message, "is already in use") {
		t.Errorf("got %+v, want NamesAccepted False", c)
	}
	if c := got.Conditions[1]; c.Type != apiextensionsv1.Established || c.Status != apiextensionsv1.ConditionFalse ||
		c.Reason != "NotAccepted" {
		t.Errorf("got %+v, want Established False", c)
	}
	body, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if list, err := custom.Resources(body); err != nil || len(list) > 0 {
		t.Errorf("got %v, %v, want no resources", list, err)
	}
	// The same names in another group, or its own former self, are no conflict.
	other.Group = "other.example.com"
	if got := status(t, definition(t, "foos", kinds.NewCatalog(other))); got.AcceptedNames.Kind != "Foo" {
		t.Errorf("got accepted names %+v, want all", got.AcceptedNames)
	}
}

func TestDefinitionUpdates(t *testing.T) {
	before := definition(t, "foos", kinds.NewCatalog())
	if errs := custom.CheckDefinitionUpdate(typed(t, before), typed(t, before)); len(errs) > 0 {
		t.Errorf("no change: got %v", errs.ToAggregate())
	}
	after := before.DeepCopy()
	if err := unstructured.SetNestedStringSlice(after.Object, []string{"fo", "fu"}, "spec", "names", "shortNames"); err != nil {
		t.Fatal(err)
	}
	if errs := custom.CheckDefinitionUpdate(typed(t, after), typed(t, before)); len(errs) > 0 {
		t.Errorf("another short name: got %v", errs.ToAggregate())
	}
	if err := unstructured.SetNestedField(after.Object, "Cluster", "spec", "scope"); err != nil {
		t.Fatal(err)
	}
	if errs := custom.CheckDefinitionUpdate(typed(t, after), typed(t, before)).ToAggregate(); errs == nil ||
		!strings.Contains(errs.Error(), "spec.scope: Invalid value: \"Cluster\": field is immutable") {
		t.Errorf("another scope: got %v", errs)
	}
}

func TestASchemaOnWhichUpstreamsValidationPanicsIsInvalid(t *testing.T) {
	before := typed(t, definition(t, "foos", kinds.NewCatalog()))
	crd := before.DeepCopy()
	v := &crd.Spec.Versions[slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == "v1"
	})]
	spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
	spec.XPreserveUnknownFields = new(bool)
	v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	v.SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.deploymentName"}}
	if errs := custom.CheckDefinition(crd); len(errs) == 0 {
		t.Error("a creation is valid")
	}
	if errs := custom.CheckDefinitionUpdate(crd, before); len(errs) == 0 {
		t.Error("an update is valid")
	}
}
