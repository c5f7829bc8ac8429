package custom

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Establish fills in the status of a CustomResourceDefinition, which upstream
// leaves to controllers: the names that are accepted, given those that the other
// resources of its group in catalog have, and whether it is established. The status
// that u has (of the former write, for an update) is kept where nothing changed. It
// is called after defaulting and validation, in every write of a definition.
func Establish(u *unstructured.Unstructured, catalog *kinds.Catalog, now time.Time) error {
	spec, _ := u.Object["spec"].(map[string]any)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := typed(spec, "names", &crd.Spec.Names); err != nil {
		return fmt.Errorf("read spec.names: %w", err)
	}
	if err := typed(u.Object, "status", &crd.Status); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	if err := typed(spec, "conversion", &crd.Spec.Conversion); err != nil {
		return fmt.Errorf("read spec.conversion: %w", err)
	}
	group, _ := spec["group"].(string)
	crd.Spec.Group = group
	accepted := acceptNames(crd, taken(crd, catalog))
	accepted.LastTransitionTime = metav1.NewTime(now)
	setCondition(crd, accepted)
	if !isTrue(crd, apiextensionsv1.Established) {
		established := apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, LastTransitionTime: metav1.NewTime(now),
			Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted",
			Message: "the initial names have been accepted",
		}
		switch {
		case accepted.Status != apiextensionsv1.ConditionTrue:
			established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "NotAccepted",
				"not all names are accepted"
		case !usableBundle(crd.Spec.Conversion):
			// apiextensions pkg/controller/establish.
			established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "InvalidCABundle",
				"The conversion webhook CABundle is invalid"
		}
		setCondition(crd, established)
	}
	approve(crd, u.GetAnnotations(), metav1.NewTime(now))
	return setStatus(u, crd)
}

// usableBundle reports whether the certificates of a conversion webhook can be read.
func usableBundle(c *apiextensionsv1.CustomResourceConversion) bool {
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return true
	}
	return len(webhook.ValidateCABundle(nil, c.Webhook.ClientConfig.CABundle)) == 0
}

// approve sets the condition that says whether a definition in a group of Kubernetes was
// approved (apiextensions pkg/controller/apiapproval). Definitions in other groups have none.
func approve(crd *apiextensionsv1.CustomResourceDefinition, annotations map[string]string, at metav1.Time) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return
	}
	state, why := apihelpers.GetAPIApprovalState(annotations)
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
		LastTransitionTime: at, Message: why,
	}
	switch state {
	case apihelpers.APIApprovalInvalid:
		condition.Reason = "InvalidAnnotation"
	case apihelpers.APIApprovalMissing:
		condition.Reason = "MissingAnnotation"
	case apihelpers.APIApprovalBypassed:
		condition.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApproved:
		condition.Status, condition.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	}
	setCondition(crd, condition)
}

// Terminate sets the condition of a CustomResourceDefinition that it is deleted once
// its objects are.
func Terminate(u *unstructured.Unstructured, at metav1.Time) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := typed(u.Object, "status", &crd.Status); err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: at,
		Reason:  "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	})
	return setStatus(u, crd)
}

func setStatus(u *unstructured.Unstructured, crd *apiextensionsv1.CustomResourceDefinition) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&crd.Status)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	u.Object["status"] = status
	return nil
}

// setCondition puts a condition in place of the former one of its type, whose
// time it keeps when the status is the same.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition) {
	for i, former := range crd.Status.Conditions {
		if former.Type == c.Type {
			if former.Status == c.Status {
				c.LastTransitionTime = former.LastTransitionTime
			}
			crd.Status.Conditions[i] = c
			return
		}
	}
	crd.Status.Conditions = append(crd.Status.Conditions, c)
}

func isTrue(crd *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == t && c.Status == apiextensionsv1.ConditionTrue
	})
}

// usedNames are the names that other resources of a group have.
type usedNames struct {
	resources, kinds map[string]bool
}

func taken(crd *apiextensionsv1.CustomResourceDefinition, catalog *kinds.Catalog) usedNames {
	used := usedNames{resources: map[string]bool{}, kinds: map[string]bool{}}
	for _, r := range catalog.Stored() {
		if r.Group != crd.Spec.Group || r.Plural == crd.Spec.Names.Plural {
			continue
		}
		used.resources[r.Plural], used.resources[r.Singular] = true, true
		for _, short := range r.ShortNames {
			used.resources[short] = true
		}
		used.kinds[r.Kind], used.kinds[r.ListKind] = true, true
	}
	return used
}

// acceptNames accepts the requested names that are free, and returns the
// condition NamesAccepted. A name that was accepted before stays accepted.
func acceptNames(crd *apiextensionsv1.CustomResourceDefinition,
	used usedNames,
) apiextensionsv1.CustomResourceDefinitionCondition {
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
		Reason: "NoConflicts", Message: "no conflicts found",
	}
	want, got := crd.Spec.Names, &crd.Status.AcceptedNames
	refuse := func(reason string, names ...string) {
		for i, name := range names {
			names[i] = fmt.Sprintf("%q is already in use", name)
		}
		message := strings.Join(names, ", ")
		if len(names) > 1 {
			message = "[" + message + "]"
		}
		condition.Status, condition.Reason, condition.Message = apiextensionsv1.ConditionFalse, reason, message
	}
	for _, name := range []struct {
		reason   string
		want     string
		accepted *string
		used     map[string]bool
	}{
		{"PluralConflict", want.Plural, &got.Plural, used.resources},
		{"SingularConflict", want.Singular, &got.Singular, used.resources},
		{"KindConflict", want.Kind, &got.Kind, used.kinds},
		{"ListKindConflict", want.ListKind, &got.ListKind, used.kinds},
	} {
		if name.want != *name.accepted && name.used[name.want] {
			refuse(name.reason, name.want)
			continue
		}
		*name.accepted = name.want
	}
	var busy []string
	for _, short := range want.ShortNames {
		if used.resources[short] && !slices.Contains(got.ShortNames, short) {
			busy = append(busy, short)
		}
	}
	if len(busy) > 0 {
		refuse("ShortNamesConflict", busy...)
	} else {
		got.ShortNames = want.ShortNames
	}
	got.Categories = want.Categories
	return condition
}
