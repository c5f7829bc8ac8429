package review_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

// The texts are upstream's: pkg/apis/authorization/validation, pkg/registry/authorization/util.
func TestSelectorsOfReviewsAreCheckedAndRead(t *testing.T) {
	for _, c := range []struct{ name, selectors, invalid, ignored string }{
		{"raw", `"fieldSelector":{"rawSelector":"a=b"},"labelSelector":{"rawSelector":"a in (b)"}`, "", ""},
		{
			"requirements",
			`"fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]},"labelSelector":{"requirements":[{"key":"a","operator":"Exists"}]}`,
			"", "",
		},
		{
			"unreadable", `"fieldSelector":{"rawSelector":"==="},"labelSelector":{"rawSelector":"a in"}`, "",
			"spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector " +
				"ignored due to parse error",
		},
		{
			"half readable",
			`"fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"a",` +
				`"operator":"Near","values":["b"]}]}`, "",
			"spec.resourceAttributes.fieldSelector partially ignored due to parse error",
		},
		{
			"both forms", `"labelSelector":{"rawSelector":"a","requirements":[{"key":"a","operator":"Exists"}]}`,
			`spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same ` +
				`time as requirements`, "",
		},
		{
			"no form", `"fieldSelector":{}`,
			`spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is ` +
				`specified, requirements or rawSelector is required`, "",
		},
	} {
		body := `{"spec":{"resourceAttributes":{"verb":"list","resource":"pods",` + c.selectors + `}}}`
		got, err := ask[authorizationv1.SelfSubjectAccessReview](t, admin(), "selfsubjectaccessreviews", body)
		switch {
		case c.invalid != "":
			if err == nil || wire.StatusOf(err).Code != 422 || !strings.Contains(err.Error(), c.invalid) {
				t.Errorf("%s: %v, want %s", c.name, err, c.invalid)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !got.Status.Allowed || got.Status.EvaluationError != c.ignored:
			t.Errorf("%s: %+v, want the evaluation error %q", c.name, got.Status, c.ignored)
		}
	}
}

func FuzzSelectors(f *testing.F) {
	f.Add("a=b", "a in (b)")
	f.Add("a!=b,c==d", "!a")
	f.Add(`\`, "a notin (")
	f.Fuzz(func(t *testing.T, fields, labels string) {
		_, err := ask[authorizationv1.SelfSubjectAccessReview](t, admin(), "selfsubjectaccessreviews",
			string(mustJSON(t, map[string]any{
				"spec": map[string]any{"resourceAttributes": map[string]any{
					"verb": "list", "resource": "pods",
					"fieldSelector": map[string]any{"rawSelector": fields},
					"labelSelector": map[string]any{"rawSelector": labels},
				}},
			})))
		if err != nil && wire.StatusOf(err).Code != 422 {
			t.Errorf("%q %q: %v", fields, labels, err)
		}
	})
}
