package builtin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/conformance/builtin"
)

func took(o map[string]any) builtin.Verdict { return builtin.Verdict{Object: o} }

func warned(texts ...string) builtin.Verdict {
	return builtin.Verdict{Object: map[string]any{}, Warnings: texts}
}

func refused(causes ...metav1.StatusCause) builtin.Verdict {
	return builtin.Verdict{Status: &metav1.Status{
		Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: causes},
	}}
}

func TestCompareFindsEachClassOfDifference(t *testing.T) {
	invalid := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.ports[3].port"}
	required := metav1.StatusCause{Type: metav1.CauseTypeFieldValueRequired, Field: "spec.data[some.key]"}
	ports := func(port any) map[string]any {
		return map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": port}}}}
	}
	tests := []struct {
		name              string
		upstream, gapless builtin.Verdict
		want              []string
	}{
		{"nothing", took(ports(1.0)), took(ports(1.0)), nil},
		{"a value", took(ports(1.0)), took(ports(2.0)), []string{"K | create | different | spec.ports[*].port | another value"}},
		{
			"a member too few", took(map[string]any{"a": 1.0}), took(map[string]any{}),
			[]string{"K | create | different | a | only upstream"},
		},
		{
			"a member too many", took(map[string]any{}), took(map[string]any{"a": 1.0}),
			[]string{"K | create | different | a | only gapless"},
		},
		{
			"stricter", took(ports(1.0)), refused(invalid),
			[]string{"K | create | stricter | spec.ports[*].port | FieldValueInvalid"},
		},
		{"looser", refused(invalid), took(ports(1.0)), []string{"K | create | looser | spec.ports[*].port | FieldValueInvalid"}},
		{
			"causes", refused(invalid, required), refused(required),
			[]string{"K | create | causes | spec.ports[*].port | only upstream: FieldValueInvalid"},
		},
		{
			"a warning", warned("spec.ports[0]: x"), warned(),
			[]string{"K | create | warnings |  | only upstream: spec.ports[*]: x"},
		},
		{
			"warnings in another order", warned("x", "y"), warned("y", "x"),
			[]string{"K | create | warnings |  | another order, or another position"},
		},
		{"the same causes", refused(invalid, required), refused(required, invalid), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := lines(builtin.Compare(builtin.Finding{Kind: "K", Write: builtin.Create}, test.upstream, test.gapless))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	of := builtin.Finding{Kind: "K", Write: builtin.Random}
	if got := builtin.Compare(of, refused(invalid), refused(required)); len(got) > 0 {
		t.Errorf("the causes of random objects are compared: %v", got)
	}
}
