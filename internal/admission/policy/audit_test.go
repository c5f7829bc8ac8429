package policy_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
)

// noting is a request whose annotations can be read.
type noting struct {
	admission.Attributes
	notes map[string]string
}

func (n noting) AddAnnotation(key, value string) error {
	n.notes[key] = value
	return nil
}

func TestAuditAnnotations(t *testing.T) {
	s := start(t)
	s.must(s.target("", "v1", "configmaps", "default", ""), configMap("a", ""))
	s.must(s.target("", "v1", "configmaps", "default", ""), configMap("b", ""))
	put(t, s.plugin, validating, "p",
		forAll("configmaps")+`,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"true"},{"expression":"false","message":"no"}],"auditAnnotations":[
		{"key":"name","valueExpression":"'object name: ' + object.metadata.name"},{"key":"none","valueExpression":"null"},`+
			`{"key":"params","valueExpression":"string(params.metadata.name)"},
		{"key":"long","valueExpression":"['`+strings.Repeat("x", 11<<10)+`'].join()"}]`)
	put(t, s.plugin, checks, "b",
		`"policyName":"p","validationActions":["Audit"],"paramRef":{"selector":{"matchExpressions":[]}}`)
	gvr := kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	o := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}},
	}
	a := noting{
		admission.NewAttributesRecord(o, nil, o.GroupVersionKind(), "default", "c", gvr, "", admission.Create, nil, false,
			caller), map[string]string{},
	}
	if err := s.plugin.Validate(t.Context(), a); err != nil {
		t.Fatalf("validate plugin: %v", err)
	}
	failed := `{"message":"no","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Audit"]}`
	rest := `,` + failed // kube-root-ca.crt is not there: nobody makes it
	want := map[string]string{
		"p/name": "object name: c", "p/params": "a, b", "p/long": strings.Repeat("x", 10<<10),
		"validation.policy.admission.k8s.io/validation_failure": "[" + failed + rest + "]",
	}
	if diff := cmp.Diff(want, maps.Clone(a.notes)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
