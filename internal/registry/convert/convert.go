// Package convert converts custom resources between the versions of their definition
// (apiextensions-apiserver pkg/apiserver/conversion).
//
// A [Converter] returns objects in the version that a request wants, and content in the version
// that is stored. A review is one request for the conversion of some objects, and its answer, of
// which nothing is believed. A conversion is one object in one version: whoever needs it first
// makes it, the others wait for it, and the last ones are kept, so that a change is converted
// once for all watches of a version.
//
// Nothing here holds a lock while a webhook is called.
//
// shared.go shares conversions among readers, review.go checks the answers of webhooks.
package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/hook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Converter converts objects. It is safe for concurrent use. The caller calls Close when
// nothing uses it any more.
type Converter struct {
	callers *hook.Callers
	shared  shared
	metrics *metrics
}

const (
	// timeout is how long a review may take, with the wait for others to end: apiserver
	// util/webhook/authentication.go setGlobalDefaults.
	timeout = 30 * time.Second
	// maxAnswer bounds an answer, in bytes: four objects of the largest size. Upstream has no
	// bound.
	maxAnswer = 4 * kinds.MaxObjectBytes
	// reviewers bounds the reviews of one webhook at a time; more wait.
	reviewers = 16
	// maxCallers bounds the webhooks to which there are connections.
	maxCallers = 64
)

// New returns a converter that finds services in a cluster. It starts no goroutine.
// Redirects are followed, as upstream's client does.
func New(cluster hook.Cluster) *Converter {
	return &Converter{metrics: newMetrics(), callers: hook.NewCallers(hook.Config{
		Cluster: cluster, MaxAnswer: maxAnswer, Concurrent: reviewers, MaxCallers: maxCallers, Redirects: true,
	})}
}

// Close closes the connections that are not in use.
func (c *Converter) Close() { c.callers.Close() }

// Show returns stored objects as a resource shows them, in their order; the slice may be the
// argument: their read forms, and of those that are stored in another version, the read forms
// converted to the resource's version, several in one review.
// Errors: 500 with upstream's texts, ctx's cause.
func (c *Converter) Show(ctx context.Context, r *kinds.Resource, objects ...*wire.Object) ([]*wire.Object, error) {
	var shown []*wire.Object
	var other []int // those to convert
	for i, o := range objects {
		read := r.Readings.Of(o)
		converts := o.APIVersion() != r.APIVersion() || r.Conversion != nil
		if read == o && !converts {
			continue
		}
		if shown == nil {
			shown = append(make([]*wire.Object, 0, len(objects)), objects...)
		}
		shown[i] = read
		switch {
		case !converts:
		case r.Converts():
			other = append(other, i)
		default:
			shown[i] = r.Show(read)
		}
	}
	if shown == nil {
		return objects, nil
	}
	if len(other) == 0 {
		return shown, nil
	}
	return shown, c.convert(ctx, r, shown, other)
}

// Content returns the content of one object in the version of a resource. The content is not
// changed, and the result may share parts with it. Errors: those of Show.
func (c *Converter) Content(ctx context.Context, r *kinds.Resource, content map[string]any) (map[string]any, error) {
	return contentBy(ctx, r, content, c.makeAll)
}

// Raw is Content without what the schema of the version makes of it: nothing is pruned, and no metadata
// are repaired. Upstream's field managers compare such objects (apiextensions-apiserver
// customresource_handler.go scopeWithFieldManager).
func (c *Converter) Raw(ctx context.Context, r *kinds.Resource, content map[string]any) (map[string]any, error) {
	return contentBy(ctx, r, content, c.makeRaw)
}

// maker converts objects to the version of a resource.
type maker = func(context.Context, *kinds.Resource, []source) ([]map[string]any, error)

func contentBy(ctx context.Context, r *kinds.Resource, content map[string]any, makes maker) (map[string]any, error) {
	u := &unstructured.Unstructured{Object: content}
	if u.GetAPIVersion() == r.APIVersion() {
		return content, nil
	}
	value, err := wire.Canonical(content)
	if err != nil {
		return nil, wire.BadRequest("%v", err)
	}
	from := source{value: value, kind: u.GroupVersionKind()}
	made, err := makes(ctx, r, []source{from})
	if err != nil {
		return nil, err
	}
	if rv := u.GetResourceVersion(); rv != "" {
		(&unstructured.Unstructured{Object: made[0]}).SetResourceVersion(rv) // which the canonical form does not have
	}
	return made[0], nil
}

// Between returns content of one version of a resource in another one. The result may share
// parts with the argument, which is not changed. Errors: those of Show.
func (c *Converter) Between(ctx context.Context, v kinds.Versions, content map[string]any) (map[string]any, error) {
	if v.To.Converts() {
		return c.Content(ctx, v.To, content)
	}
	content = v.From.Store(content)
	if v.To.Conversion != nil {
		content = v.To.Conversion.Show(content)
	}
	content = maps.Clone(content)
	content["apiVersion"], content["kind"] = v.To.APIVersion(), v.To.Kind
	return content, nil
}

// Bounds of one review. A single larger object is sent alone.
const (
	reviewObjects = 256
	reviewBytes   = 1 << 20
)

// make converts objects of which the caller has claimed the conversions.
func (c *Converter) make(ctx context.Context, r *kinds.Resource, claimed []*conversion) error {
	for len(claimed) > 0 {
		n, bytes := 0, 0
		for n < len(claimed) && n < reviewObjects && bytes < reviewBytes {
			bytes += claimed[n].from.Size()
			n++
		}
		sources := make([]source, 0, n)
		for _, v := range claimed[:n] {
			sources = append(sources, sourceOf(v.from))
		}
		made, err := c.makeAll(ctx, r, sources)
		if err != nil {
			return err
		}
		for i, v := range claimed[:n] {
			o, err := object(r, v.from, made[i])
			if err != nil {
				return err
			}
			c.shared.finish(v, o)
		}
		claimed = claimed[n:]
	}
	return nil
}

// object returns a converted object, under the resourceVersion of the stored one.
func object(r *kinds.Resource, from *wire.Object, content map[string]any) (*wire.Object, error) {
	value, err := wire.Canonical(content)
	if err == nil {
		err = kinds.CheckSize(value)
	}
	if err != nil {
		return nil, failed(source{kind: sourceOf(from).kind}, err)
	}
	o, err := wire.NewObject(value, from.ResourceVersion(), r.Fields)
	if err != nil {
		return nil, failed(source{kind: sourceOf(from).kind}, err)
	}
	return o, nil
}

// makeAll converts objects in one review, and brings them into the form of the schema.
func (c *Converter) makeAll(ctx context.Context, r *kinds.Resource, sources []source) ([]map[string]any, error) {
	made, err := c.makeRaw(ctx, r, sources)
	if err != nil {
		return nil, err
	}
	for i, content := range made {
		if err := r.Coerce(&unstructured.Unstructured{Object: content}); err != nil {
			return nil, failed(sources[i], err)
		}
	}
	return made, nil
}

// makeRaw is makeAll without the schema of the version.
func (c *Converter) makeRaw(ctx context.Context, r *kinds.Resource, sources []source) ([]map[string]any, error) {
	if r.Webhook != nil {
		return c.review(ctx, r, sources)
	}
	return renamed(r, sources)
}

// renamed converts by the strategy None.
func renamed(r *kinds.Resource, sources []source) ([]map[string]any, error) {
	made := make([]map[string]any, len(sources))
	for i, s := range sources {
		content, err := jsontree.Decode(s.value)
		if err != nil {
			return nil, failed(s, err)
		}
		content["apiVersion"] = r.APIVersion()
		made[i] = content
	}
	return made, nil
}

// failed is the answer to a request whose conversion failed: upstream's is an error without
// a Status.
func failed(s source, why error) error {
	return wire.Unknown(fmt.Errorf("conversion webhook for %v failed: %w", s.kind, why))
}

// refused marks what a webhook has answered, unlike a call that has failed.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// Refused reports whether a conversion failed because of an answer: fewer objects may be
// converted by another review.
func Refused(err error) bool {
	_, is := errors.AsType[refused](err)
	return is
}
