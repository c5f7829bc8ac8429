// Package patch applies the patches that a client may send to JSON.
//
// It has one noun: a patch, which is a JSON patch (RFC 6902), a merge patch
// (RFC 7386) or a strategic merge patch. Its texts and limits are upstream's
// (apiserver pkg/endpoints/handlers/patch.go), and it never panics.
package patch

import (
	"errors"
	"fmt"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/kube"
)

// Bounds of a JSON patch.
const (
	// maxPatchOperations: apiserver handlers/patch.go maxJSONPatchOperations.
	maxPatchOperations = 10_000
	// maxPatched is the largest document that a patch may make: a few operations
	// can copy an object into itself again and again. It is over what a body may be.
	maxPatched = 4 << 20
	// maxPatchWork bounds the bytes that the steps of one patch may go through.
	maxPatchWork = 64 << 20
)

// Strategic applies a strategic merge patch to original, both JSON.
type Strategic func(original, patch []byte) ([]byte, error)

// Apply applies a patch to a JSON document, and also returns which fields the
// patch has twice. Errors: 400 for what is no patch, 413 for one that makes too
// much of the document, 415 for an unknown type, 422 for one that does not fit.
func Apply(doc []byte, p kube.Patch, strategic Strategic) (patched []byte, problems []error, err error) {
	// The library indexes slices with numbers from outside.
	defer func() {
		if thrown := recover(); thrown != nil {
			patched, problems, err = nil, nil, unprocessable(fmt.Errorf("apply the patch: %v", thrown))
		}
	}()
	switch p.Type {
	case types.JSONPatchType:
		return applyJSON(doc, p.Body)
	case types.MergePatchType:
		problems, err := object(p.Body)
		if err != nil {
			return nil, nil, err
		}
		patched, err := jsonpatch.MergePatch(doc, p.Body)
		if err != nil {
			return nil, nil, kube.BadRequest("%v", err)
		}
		return patched, problems, nil
	case types.StrategicMergePatchType:
		problems, err := object(p.Body)
		if err != nil {
			return nil, nil, err
		}
		patched, err := strategic(doc, p.Body)
		return patched, problems, err
	case types.ApplyPatchType, types.ApplyCBORPatchType:
	}
	return nil, nil, kube.UnsupportedMediaType([]string{string(types.JSONPatchType), string(types.MergePatchType)})
}

// object checks that the patch is a JSON object.
func object(patch []byte) ([]error, error) {
	var tree map[string]any
	problems, err := kjson.UnmarshalStrict(patch, &tree)
	if err != nil {
		return nil, kube.BadRequest("error decoding patch: %v", err)
	}
	if tree == nil {
		return nil, kube.BadRequest("error decoding patch: %v", jsonpatch.ErrBadJSONPatch)
	}
	return problems, nil
}

// operation is one step of a JSON patch, for finding fields that are there twice.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func applyJSON(doc, patch []byte) ([]byte, []error, error) {
	var operations []operation
	problems, err := kjson.UnmarshalStrict(patch, &operations)
	if err != nil {
		return nil, nil, kube.BadRequest("error decoding patch: %v", err)
	}
	for i, problem := range problems {
		problems[i] = fmt.Errorf("json patch %w", problem)
	}
	steps, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, kube.BadRequest("%v", err)
	}
	if len(steps) > maxPatchOperations {
		return nil, nil, tooLargePatch(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(steps)))
	}
	patched, err := run(doc, steps)
	return patched, problems, err
}

// run applies a JSON patch, one copy at a time: only these can make a
// document out of all proportion to the patch.
func run(doc []byte, steps jsonpatch.Patch) ([]byte, error) {
	work := 0
	for len(steps) > 0 {
		n := 1 + slices.IndexFunc(steps, func(o jsonpatch.Operation) bool { return o.Kind() == "copy" })
		if n == 0 {
			n = len(steps)
		}
		var err error
		if doc, err = steps[:n].Apply(doc); err != nil {
			return nil, unprocessable(err)
		}
		if work += len(doc); len(doc) > maxPatched || work > maxPatchWork {
			return nil, tooLargePatch(fmt.Sprintf("the patch makes more than %d bytes of the object", maxPatched))
		}
		steps = steps[n:]
	}
	return doc, nil
}

// tooLargePatch is 413.
func tooLargePatch(why string) error {
	e := kube.TooLargeBody(maxPatched)
	e.Status.Message = "Request entity too large: " + why
	return e
}

// unprocessable is 422 for a JSON patch that does not fit the object: upstream's
// generic text, without the reason, which stays in the cause.
func unprocessable(cause error) error {
	e := kube.Invalid(schema.GroupKind{}, "", nil)
	e.Status.Message = "the server rejected our request due to an error in our request"
	e.Status.Details = &metav1.StatusDetails{}
	e.Cause = errors.Join(e.Cause, cause)
	return e
}
