package certificates

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// sign writes the caller into a new signing request, and removes what the request itself
// says about its user.
func sign(u *unstructured.Unstructured, by user.Info) {
	spec := tree.Made(u.Object, "spec")
	for _, name := range []string{"username", "uid", "groups", "extra"} {
		delete(spec, name)
	}
	if by == nil {
		return
	}
	spec["username"] = by.GetName()
	if uid := by.GetUID(); uid != "" {
		spec["uid"] = uid
	}
	if groups := by.GetGroups(); len(groups) > 0 {
		spec["groups"] = texts(groups)
	}
	extra := tree.Object{}
	for name, values := range by.GetExtra() {
		extra[name] = texts(values)
	}
	if len(extra) > 0 {
		spec["extra"] = extra
	}
}

func texts(values []string) []any {
	list := make([]any, len(values))
	for i, value := range values {
		list[i] = value
	}
	return list
}

// subresources are the subresources of signing requests: approval, and a status
// that leaves it alone.
func subresources() []kinds.Subresource {
	kind := kinds.GroupVersionKind{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}
	verbs := []string{"get", "patch", "update"}
	return []kinds.Subresource{
		{Name: "approval", Verbs: verbs, Kind: kind, Apply: takeApproval, Check: checkApproval},
		{Name: "status", Verbs: verbs, Kind: kind, Apply: takeSigned, Check: checkSigned},
	}
}

// takeApproval copies the conditions, and metadata.
func takeApproval(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	request := sent.DeepCopy()
	tree.Take(request.Object, old.Object, "spec")
	tree.Take(request.Object, old.Object, "status")
	tree.Take(tree.Made(request.Object, "status"), tree.Child(sent.Object, "status"), "conditions")
	return timed(request, old), nil
}

// takeSigned copies the status, and metadata.
func takeSigned(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	request := sent.DeepCopy()
	tree.Take(request.Object, old.Object, "spec")
	return timed(request, old), nil
}

// timed fills in the times of conditions. One that has not changed keeps the time of its
// transition.
func timed(request, old *unstructured.Unstructured) *unstructured.Unstructured {
	now := time.Now().UTC().Format(time.RFC3339)
	for _, c := range conditions(request) {
		if c["lastUpdateTime"] == nil {
			c["lastUpdateTime"] = now
		}
		if c["lastTransitionTime"] != nil {
			continue
		}
		c["lastTransitionTime"] = now
		kind, _ := c["type"].(string)
		if was := condition(old, kind); was != nil && was["status"] == c["status"] && was["lastTransitionTime"] != nil {
			c["lastTransitionTime"] = was["lastTransitionTime"]
		}
	}
	return request
}

func conditions(request *unstructured.Unstructured) []tree.Object {
	list, _ := tree.Child(request.Object, "status")["conditions"].([]any)
	found := make([]tree.Object, 0, len(list))
	for _, item := range list {
		if condition, is := item.(tree.Object); is {
			found = append(found, condition)
		}
	}
	return found
}

// checkApproval lets a request be approved or denied, once and for all.
func checkApproval(u, old *unstructured.Unstructured) field.ErrorList {
	at := field.NewPath("status", "conditions")
	return checkConditions(at, u, old)
}

// checkSigned refuses changes of the approval, and of an issued certificate.
func checkSigned(u, old *unstructured.Unstructured) field.ErrorList {
	at := field.NewPath("status", "conditions")
	errs := checkConditions(at, u, old)
	for _, decided := range []string{"Approved", "Denied"} {
		is, was := ofType(u, decided), ofType(old, decided)
		switch {
		case len(is) < len(was): // checkConditions says it
		case len(is) > len(was):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not add a condition of type %q", decided)))
		case !equality.Semantic.DeepEqual(is, was):
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not modify a condition of type %q", decided)))
		}
	}
	issued := tree.Child(old.Object, "status")["certificate"]
	if now := tree.Child(u.Object, "status")["certificate"]; issued != nil && now != issued {
		errs = append(
			errs,
			field.Forbidden(field.NewPath("status", "certificate"), "updates may not modify existing certificate content"),
		)
	}
	return errs
}

// checkConditions checks all conditions, but for what the old ones have already, and that those
// which decide about a request stay.
func checkConditions(at *field.Path, u, old *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	count, before := types(u), types(old)
	repeated := slices.ContainsFunc(slices.Collect(maps.Values(before)), func(n int) bool { return n > 1 })
	seen := map[string]bool{}
	for i, c := range conditions(u) {
		kind, _ := c["type"].(string)
		if kind == "" && before[""] == 0 {
			errs = append(errs, field.Required(at.Index(i).Child("type"), ""))
		}
		status, _ := c["status"].(string)
		allowed := []string{"False", "True", "Unknown"}
		if slices.Contains(deciding(), kind) {
			allowed = []string{"True"}
		}
		switch {
		case status == "":
			errs = append(errs, field.Required(at.Index(i).Child("status"), ""))
		case !slices.Contains(allowed, status):
			errs = append(errs, field.NotSupported(at.Index(i).Child("status"), status, allowed))
		}
		if seen[kind] && !repeated {
			errs = append(errs, field.Duplicate(at.Index(i).Child("type"), kind))
		}
		seen[kind] = true
	}
	if seen["Approved"] && seen["Denied"] && (before["Approved"] == 0 || before["Denied"] == 0) {
		errs = append(errs, field.Invalid(at, "Denied", "Approved and Denied conditions are mutually exclusive"))
	}
	for _, kind := range deciding() {
		if count[kind] < before[kind] {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("updates may not remove a condition of type %q", kind)))
		}
	}
	return errs
}

// deciding are the types of conditions that decide about a request, once and for all.
func deciding() []string { return []string{"Approved", "Denied", "Failed"} }

// types counts the conditions by their types.
func types(u *unstructured.Unstructured) map[string]int {
	count := map[string]int{}
	for _, c := range conditions(u) {
		kind, _ := c["type"].(string)
		count[kind]++
	}
	return count
}

// ofType returns the conditions of a type.
func ofType(u *unstructured.Unstructured, kind string) []tree.Object {
	return slices.DeleteFunc(conditions(u), func(c tree.Object) bool { return c["type"] != kind })
}

func condition(u *unstructured.Unstructured, kind string) tree.Object {
	for _, c := range conditions(u) {
		if c["type"] == kind {
			return c
		}
	}
	return nil
}
