package certificates_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds/certificates"
)

// TestConditionsOfSigningRequestsStayWhatTheyAre has conditions as "type=status", and what both subresources,
// or only the status, refuse.
func TestConditionsOfSigningRequestsStayWhatTheyAre(t *testing.T) {
	for _, c := range []struct{ name, before, now, want, ofStatus string }{
		{"no status", "", "Failed=", "status.conditions[0].status: Required value", ""},
		{
			"a wrong status", "", "Other=Maybe",
			`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`, "",
		},
		{
			"a decision that is not true", "", "Failed=False",
			`status.conditions[0].status: Unsupported value: "False": supported values: "True"`, "",
		},
		{"any status of others", "", "Other=False Another=Unknown", "", ""},
		{
			"a failure that is taken back", "Failed=True", "",
			`status.conditions: Forbidden: updates may not remove a condition of type "Failed"`, "",
		},
		{
			"an approval that is taken back", "Approved=True", "",
			`status.conditions: Forbidden: updates may not remove a condition of type "Approved"`, "",
		},
		{
			"an approval", "", "Approved=True", "",
			`status.conditions: Forbidden: updates may not add a condition of type "Approved"`,
		},
		{"repeated", "", "Other=True Other=True", "status.conditions[1].type: Duplicate value", ""},
		{"repeated before", "Other=True Other=True", "Other=True Other=False", "", ""},
		{"without a type", "", "=True", "status.conditions[0].type: Required value", ""},
		{"without a type before", "=True", "=False", "", ""},
		{"both decisions before", "Approved=True Denied=True", "Approved=True Denied=True", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, sub := range certificates.Kinds()[0].Subresources {
				want := c.want
				if sub.Name == "status" && want == "" {
					want = c.ofStatus
				}
				errs := sub.Check(signing(t, c.now), signing(t, c.before)).ToAggregate()
				if want == "" && errs != nil || want != "" && (errs == nil || !strings.Contains(errs.Error(), want)) {
					t.Errorf("%s: got %v, want %q", sub.Name, errs, want)
				}
			}
		})
	}
}

func signing(t *testing.T, conditions string) *unstructured.Unstructured {
	t.Helper()
	list := []any{}
	for one := range strings.FieldsSeq(conditions) {
		kind, status, _ := strings.Cut(one, "=")
		list = append(list, map[string]any{"type": kind, "status": status})
	}
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": list}})
	if err != nil {
		t.Fatalf("encode the request: %v", err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		t.Fatalf("decode the request: %v", err)
	}
	return u
}
