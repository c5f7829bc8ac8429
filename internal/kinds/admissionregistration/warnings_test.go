package admissionregistration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWebhooksForReviewsAreWarnedAbout(t *testing.T) {
	rule := func(group string, resources ...string) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{Rule: admissionv1.Rule{APIGroups: []string{group}, Resources: resources}}
	}
	o := &admissionv1.MutatingWebhookConfiguration{
		Webhooks: []admissionv1.MutatingWebhook{{Rules: []admissionv1.RuleWithOperations{
			rule("*", "tokenreviews"), rule("authentication.k8s.io", "tokenreviews", "pods", "tokenreviews"),
			rule("authentication.k8s.io", "*"),
		}}},
	}
	want := []string{
		"webhooks[0].rules[1]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule " +
			"will have no effect",
	}
	if diff := cmp.Diff(want, warnMutatingWebhooks(o, nil)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
