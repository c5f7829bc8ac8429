// Package patch applies the patches that a client, or an admission webhook, may send.
//
// A [Patch] is a JSON patch (RFC 6902), a merge patch (RFC 7386) or a strategic merge
// patch; its error texts are upstream's (apiserver pkg/endpoints/handlers/patch.go). A
// [Change] applies one to objects of a resource. The time and memory of a patch are bounded
// by its size, the document's size, and the limits of this package.
package patch

import (
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// maxOperations bounds a JSON patch: apiserver handlers/patch.go
// maxJSONPatchOperations.
const maxOperations = 10_000

// Strategic applies a strategic merge patch to original, both JSON, and bounds its work.
type Strategic func(original, patch []byte) ([]byte, error)

// Patch is one patch of a client. It is used by one goroutine at a time.
type Patch struct {
	from     wire.Patch
	steps    jsonpatch.Patch
	problems []error // duplicate fields of the patch
	checked  bool    // steps and problems are set
}

// New returns a patch. Apply parses it.
func New(p wire.Patch) *Patch { return &Patch{from: p} }

// Apply applies the patch to a JSON document, and also returns the duplicate fields of
// the patch. It parses the patch once, for all documents. Errors: 400 for a malformed
// patch, 413 for one whose result is too large or that is too expensive, 415 for an
// unknown type, 422 for one that cannot be applied to the document.
func (p *Patch) Apply(doc []byte, strategic Strategic) (patched []byte, problems []error, err error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	if p.from.Type == types.StrategicMergePatchType {
		patched, err = strategic(doc, p.from.Body)
	} else {
		patched, err = p.change(doc)
	}
	if err == nil {
		err = kinds.CheckSize(patched)
	}
	return patched, p.problems, err
}

// change applies a JSON patch or a merge patch.
func (p *Patch) change(doc []byte) ([]byte, error) {
	root, err := parse(doc)
	if err != nil {
		return nil, wire.Internal(fmt.Errorf("read the object to be patched: %w", err))
	}
	if p.from.Type == types.MergePatchType {
		change, err := parse(p.from.Body)
		if err != nil {
			return nil, wire.BadRequest("%v", err)
		}
		return write(nil, merge(root, change)), nil
	}
	s := &steps{root: root}
	if err := s.run(p.steps); err != nil {
		if _, refused := errors.AsType[*wire.StatusError](err); refused {
			return nil, err
		}
		return nil, unprocessable(err)
	}
	return write(nil, s.root), nil
}

// check parses the patch once.
func (p *Patch) check() (err error) {
	if p.checked {
		return nil
	}
	switch p.from.Type { //nolint:exhaustive // the others are refused
	case types.JSONPatchType:
		p.steps, p.problems, err = decodeSteps(p.from.Body)
	case types.MergePatchType, types.StrategicMergePatchType:
		if err = kinds.CheckSize(p.from.Body); err == nil {
			p.problems, err = object(p.from.Body)
		}
	default:
		return wire.UnsupportedMediaType([]string{string(types.JSONPatchType), string(types.MergePatchType)})
	}
	p.checked = err == nil
	return err
}

// object checks that the patch is a JSON object.
func object(patch []byte) ([]error, error) {
	if _, err := jsontree.DecodePlain(patch); err == nil {
		return nil, nil
	}
	var tree map[string]any
	problems, err := kjson.UnmarshalStrict(patch, &tree)
	if err != nil {
		return nil, wire.BadRequest("error decoding patch: %v", err)
	}
	if tree == nil {
		return nil, wire.BadRequest("error decoding patch: %v", jsonpatch.ErrBadJSONPatch)
	}
	return problems, nil
}

// unprocessable is 422 for a JSON patch that cannot be applied to the object: upstream's
// generic text; the reason is in the cause.
func unprocessable(cause error) error {
	e := wire.Invalid(kinds.GroupVersionKind{}.GroupKind(), "", nil)
	e.ErrStatus.Message = "the server rejected our request due to an error in our request"
	e.ErrStatus.Details = &metav1.StatusDetails{}
	e.Cause = errors.Join(e.Cause, cause)
	return e
}
