package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
)

// Policy says which requests are recorded, and how much of them.
type Policy struct{ rules audit.PolicyRuleEvaluator }

// maxPolicyBytes bounds the file.
const maxPolicyBytes = 3 << 20

// LoadPolicy reads the file of a policy, of audit.k8s.io/v1. Errors name the file, the line
// or the field, and what to do.
func LoadPolicy(path string) (*Policy, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("audit policy: %w; --audit-policy-file names a file with a Policy of audit.k8s.io/v1", err)
	}
	p, err := ParsePolicy(content)
	if err != nil {
		return nil, fmt.Errorf("audit policy %s: %w; correct the file and start again", path, err)
	}
	return p, nil
}

// ParsePolicy reads a policy in YAML or JSON. It refuses what upstream only warns of, unknown
// and repeated fields, and what upstream ignores, a second document: a rule that is misspelled
// or not read records too little, and nobody notices.
func ParsePolicy(content []byte) (*Policy, error) {
	if len(content) > maxPolicyBytes {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", len(content), maxPolicyBytes)
	}
	if err := oneDocument(content); err != nil {
		return nil, err
	}
	strict := serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()
	if _, _, err := strict.Decode(content, nil, &auditinternal.Policy{}); err != nil {
		return nil, err
	}
	p, err := policy.LoadPolicyFromBytes(content)
	if err != nil {
		return nil, err
	}
	return &Policy{policy.NewPolicyRuleEvaluator(p)}, nil
}

// oneDocument returns an error for a file with more than one document.
func oneDocument(content []byte) error {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	var first, second yaml.Node
	if err := documents.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the file is empty: want apiVersion: audit.k8s.io/v1, kind: Policy, and rules")
		}
		return err
	}
	var what struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if err := first.Decode(&what); err == nil && (what.APIVersion == "" || what.Kind == "") {
		return errors.New("it does not say what it is: want apiVersion: audit.k8s.io/v1 and kind: Policy")
	}
	if err := documents.Decode(&second); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	return fmt.Errorf("line %d: there is a second document, and a policy is one: put all rules in one list", second.Line)
}
