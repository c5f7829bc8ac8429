package policy

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/wire"
)

// pluginName is upstream's, and the key of what is kept between the two passes of a request.
const pluginName = "MutatingAdmissionPolicy"

// invocation names a policy with its binding and parameter.
type invocation struct {
	policy, binding string
	params          wire.Key
}

// reinvocation is what is known of a request between its two passes (apiserver
// policy/mutating policyReinvokeContext).
type reinvocation struct {
	last *unstructured.Unstructured // the object after the last pass
	may  map[invocation]bool        // were invoked, and ask for it again when the object changes
	due  map[invocation]bool        // must be invoked again
}

func reinvocationOf(r *request) *reinvocation {
	kept := r.GetReinvocationContext()
	if known, is := kept.Value(pluginName).(*reinvocation); is {
		return known
	}
	made := &reinvocation{may: map[invocation]bool{}, due: map[invocation]bool{}}
	kept.SetValue(pluginName, made)
	return made
}

// requireAll makes all that may be invoked again due.
func (r *reinvocation) requireAll() {
	maps.Copy(r.due, r.may)
	clear(r.may)
}
