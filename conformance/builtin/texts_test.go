package builtin_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/gapless-io/gapless/conformance/builtin"
	ours "github.com/gapless-io/gapless/internal/kinds/builtin"
)

// TestTextsOfAdmissionKindsAreUpstreams compares what a client reads of a refused webhook
// configuration, policy or binding: the whole message, with the errors of the CEL compiler.
func TestTextsOfAdmissionKindsAreUpstreams(t *testing.T) {
	manifests, err := builtin.Manifests("testdata/manifests", ours.Catalog().Resources())
	if err != nil {
		t.Fatalf("manifests: %v", err)
	}
	upstream, compared := builtin.NewUpstream(), 0
	gapless := start(t)
	for _, m := range manifests {
		if m.Target.Resource.Group != "admissionregistration.k8s.io" {
			continue
		}
		// Other errors of metadata stand in another order than those of the object.
		skip := func(path string) bool { return generated(path) || path == "metadata" }
		for _, c := range slices.Concat(builtin.Mutate(object(t, m.Body), builtin.Full, skip), broken(t, m)) {
			theirs, ours := upstream.Create(t.Context(), m.Target, c.Body), gapless.Create(t.Context(), m.Target, c.Body)
			if theirs.Status == nil || ours.Status == nil || theirs.Status.Code != http.StatusUnprocessableEntity ||
				ours.Status.Code != http.StatusUnprocessableEntity {
				continue // TestKindsAgreeWithUpstream compares these; the decoder is not upstream's whole one
			}
			compared++
			if theirs.Status.Message != ours.Status.Message {
				t.Errorf("%s %s, %s:\nupstream %s\ngapless  %s",
					m.Target.Resource.Kind, m.Name, c.What, theirs.Status.Message, ours.Status.Message)
			}
		}
	}
	t.Logf("%d texts", compared)
	if compared < 500 {
		t.Error("too few objects were refused")
	}
}

// broken returns a manifest with each of its expressions replaced by others that no
// compiler takes, or not there.
func broken(t *testing.T, m builtin.Manifest) []builtin.Case {
	t.Helper()
	var all []builtin.Case
	for _, text := range []string{
		"1", "object.", "nonsense + 1", "variables.nowhere", "params.a == 1", "\"a\n b\" + ", "'\u00e9' + und",
		"string(variables)", "Object{}", "[JSONPatch{}]", "authorizer", "null",
	} {
		o := object(t, m.Body)
		if replaceExpressions(o, text) > 0 {
			all = append(all, builtin.Case{What: "expressions are " + text, Body: body(t, o)})
		}
	}
	return all
}

// replaceExpressions replaces all expressions below a value, and counts them.
func replaceExpressions(value any, text string) int {
	count := 0
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if slices.Contains([]string{"expression", "messageExpression", "valueExpression"}, name) {
				value[name] = text
				count++
				continue
			}
			count += replaceExpressions(member, text)
		}
	case []any:
		for _, item := range value {
			count += replaceExpressions(item, text)
		}
	}
	return count
}
