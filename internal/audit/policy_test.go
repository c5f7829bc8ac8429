package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/audit"
)

const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func TestWrongPoliciesAreRefusedWithThePlaceOfTheMistake(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":             {"", "the file is empty"},
		"no kind":           {"rules: [{level: None}]", "want apiVersion: audit.k8s.io/v1 and kind: Policy"},
		"another version":   {"apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", "v1beta1"},
		"another kind":      {"apiVersion: v1\nkind: ConfigMap\n", "ConfigMap"},
		"no rules":          {head, "0 rules"},
		"no level":          {head + "rules: [{users: [bob]}]", "rules[0].level"},
		"unknown level":     {head + "rules: [{level: All}]", "rules[0].level"},
		"unknown stage":     {head + "omitStages: [Begun]\nrules: [{level: None}]", "omitStages[0]"},
		"misspelled field":  {head + "rules: [{level: Metadata, user: [bob]}]", `unknown field "rules[0].user"`},
		"repeated field":    {head + "rules: [{level: Metadata}]\nrules: [{level: None}]", "already"},
		"YAML that is none": {head + "rules:\n\t- level: None", "line 4"},
		"two documents":     {head + "rules: [{level: None}]\n---\nrules: []\n", "line 4: there is a second document"},
		"path and resource": {
			head + "rules: [{level: None, nonResourceURLs: [/x], namespaces: [a]}]", "rules[0].nonResourceURLs",
		},
		"group's version": {head + "rules: [{level: None, resources: [{group: apps/v1}]}]", "rules[0].resources.group"},
		"names without":   {head + "rules: [{level: None, resources: [{resourceNames: [a]}]}]", "resourceNames"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "policy.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
			_, err := audit.LoadPolicy(path)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range []string{path, c.want, "correct the file"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
	if _, err := audit.LoadPolicy(filepath.Join(t.TempDir(), "none")); err == nil ||
		!strings.Contains(err.Error(), "--audit-policy-file") {
		t.Errorf("a file that is missing: %v", err)
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(head + "rules: [{level: Metadata, users: [bob], resources: [{group: \"*\", resources: [\"*/status\"]}]}]"))
	f.Add([]byte(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[{"level":"None","nonResourceURLs":["/a*"]}]}`))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := audit.ParsePolicy(content)
		if (p == nil) == (err == nil) {
			t.Errorf("policy %v, error %v", p, err)
		}
	})
}
