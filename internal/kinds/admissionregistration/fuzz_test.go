package admissionregistration

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validated decodes a body as an object of a kind and applies the rules to it as a new
// object and as its own successor.
func validated[T any](body []byte, create func(*T) field.ErrorList, update func(o, old *T) field.ErrorList) field.ErrorList {
	o := new(T)
	if json.Unmarshal(body, o) != nil {
		return nil
	}
	return append(create(o), update(o, o)...)
}

// FuzzRules validates any object of any of the kinds: that must not panic, and what it
// says must be in proportion to the object.
func FuzzRules(f *testing.F) {
	for _, body := range []string{
		`{"metadata":{"name":"a"},"webhooks":[{"name":"a.b.c","clientConfig":{"url":"https://h"},"rules":[{"operations":["*"],` +
			`"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}],"matchConditions":[{"name":"a",` +
			`"expression":"request.name == 'a'"}],"sideEffects":"None","admissionReviewVersions":["v1"]}]}`,
		`{"metadata":{"name":"a"},"webhooks":[{"name":"a.b.c","clientConfig":{"service":{"name":"s","namespace":"n","path":"//a/","port":0}}}]}`,
		`{"metadata":{"name":"a"},"spec":{"failurePolicy":"Fail","paramKind":{"apiVersion":"a/b","kind":"C"},` +
			`"matchConstraints":{"resourceRules":[{"operations":["CREATE"]}]},"variables":[{"name":"a",` +
			`"expression":"object.spec"}],"validations":[{"expression":"variables.a.b > 1","messageExpression":"'a'",` +
			`"reason":"Invalid"}],"auditAnnotations":[{"key":"a","valueExpression":"'b'"}]}}`,
		`{"metadata":{"name":"a"},"spec":{"mutations":[{"patchType":"ApplyConfiguration",` +
			`"applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}},` +
			`{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/a'}]"}}],` +
			`"reinvocationPolicy":"Never"}}`,
		`{"metadata":{"name":"a"},"spec":{"policyName":"p","paramRef":{"name":"a","selector":{},"parameterNotFoundAction":"Deny"},"matchResources":{},"validationActions":["Deny","Warn","Warn"]}}`,
		`{"status":{"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0]","warning":"w"}]},"conditions":[{"type":"a"}]}}`,
	} {
		for kind := range uint8(6) {
			f.Add(kind, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		var errs field.ErrorList
		switch kind % 6 {
		case 0:
			errs = validated(body, validateNewMutatingWebhooks, validateMutatingWebhooksUpdate)
		case 1:
			errs = validated(body, validateNewValidatingWebhooks, validateValidatingWebhooksUpdate)
		case 2:
			errs = validated(body, validateNewValidatingPolicy, validateValidatingPolicyUpdate)
			errs = append(errs,
				validated(body, func(*admissionv1.ValidatingAdmissionPolicy) field.ErrorList { return nil },
					validateValidatingPolicyStatus)...)
		case 3:
			errs = validated(body, validateNewMutatingPolicy, validateMutatingPolicyUpdate)
		case 4:
			errs = validated(body, validateNewValidatingBinding, validateValidatingBindingUpdate)
		case 5:
			errs = validated(body, validateNewMutatingBinding, validateMutatingBindingUpdate)
		}
		// Twice the bound of the compiler's errors, and a kilobyte for what any three bytes,
		// the least that a value has, can get wrong.
		size, most := 0, 2*(64<<10+16<<10)+1024*(8+len(body)/3)
		for _, err := range errs {
			size += len(err.Detail)
		}
		if size > most {
			t.Errorf("got %d bytes of errors for an object of %d, want at most %d", size, len(body), most)
		}
	})
}
