package policy

import (
	"encoding/json"
	"slices"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
)

// Bounds of what goes into the audit log, as upstream's.
const (
	maxFailures   = 50
	maxAnnotation = 10 << 10 // bytes
)

const failuresKey = "validation.policy.admission.k8s.io/validation_failure"

// failure is an item of the annotation failuresKey.
type failure struct {
	Message           string                                   `json:"message"`
	Policy            string                                   `json:"policy"`
	Binding           string                                   `json:"binding"`
	ExpressionIndex   int                                      `json:"expressionIndex"`
	ValidationActions []admissionregistration.ValidationAction `json:"validationActions"`
}

// annotations are the values of a policy's audit annotations by key: several bindings or
// parameters may have different ones.
type annotations map[string][]string

func (a annotations) add(key, value string) {
	if len(value) > maxAnnotation {
		value = value[:maxAnnotation]
	}
	if !slices.Contains(a[key], value) {
		a[key] = append(a[key], value)
	}
}

// publish annotates the request.
func (p *Plugin) publish(r *request, policy string, all annotations) {
	for key, values := range all {
		if err := r.AddAnnotation(policy+"/"+key, strings.Join(values, ", ")); err != nil {
			p.note(r.ctx, policy+"/"+key, err)
		}
	}
}

// publishFailures annotates the request with the validations that failed and are audited.
func (p *Plugin) publishFailures(r *request, all []failure) {
	if len(all) == 0 {
		return
	}
	text, err := json.Marshal(all[:min(len(all), maxFailures)])
	if err == nil {
		err = r.AddAnnotation(failuresKey, string(text))
	}
	if err != nil {
		p.note(r.ctx, failuresKey, err)
	}
}
