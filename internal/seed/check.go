package seed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// index reads everything once: it notes which objects there are, and takes the
// definitions of the manifests into the catalog with which the objects are checked.
func (s *Seeder) index(ctx context.Context) error {
	s.setCatalog(s.Live.Load())
	for o, p := range s.objects() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p != nil {
			s.fail(*p)
			continue
		}
		s.entries = append(s.entries, entry{place: o.place, key: o.key})
		if o.wrong() != nil {
			continue // check reports it
		}
		r := s.kinds[o.kind]
		switch {
		case r == nil:
		case phaseOf(r) == namespaces:
			s.namespaces[o.key.name] = true
		case r.IsDefinition():
			s.define(ctx, o, r)
		}
		s.progress(ctx, "read", len(s.entries))
	}
	return nil
}

func (s *Seeder) setCatalog(c *kinds.Catalog) {
	s.catalog = c
	s.kinds = make(map[kinds.GroupVersionKind]*kinds.Resource, len(c.Resources()))
	for _, r := range c.Resources() {
		if r.Through == nil {
			s.kinds[r.GVK()] = r
		}
	}
}

// define adds what a definition defines to the catalog, if that differs from what the
// server has. check reports the problems of the definition.
func (s *Seeder) define(ctx context.Context, o object, r *kinds.Resource) {
	o.prepare(r)
	defined, changed, err := s.attempt(ctx, o, r)
	if err != nil || !changed {
		return
	}
	resources, err := custom.Resources(defined.JSON())
	if err == nil && len(resources) > 0 {
		s.setCatalog(s.catalog.With(resources...))
	}
}

// attempt does a dry run, and returns the object that a write would make of o, and whether
// that differs from what exists.
func (s *Seeder) attempt(ctx context.Context, o object, r *kinds.Resource) (*wire.Object, bool, error) {
	body, err := o.body()
	if err != nil {
		return nil, false, err
	}
	t := o.target(r)
	existing, err := s.existing(ctx, t)
	if err != nil {
		return nil, false, err
	}
	if existing == nil {
		// of others the namespace, or the definition, may not exist yet
		if err := s.Verbs.Check(t, body); err != nil || !r.IsDefinition() {
			return nil, true, err
		}
	} else if err := unknownFields(r, body); err != nil {
		return nil, false, err
	}
	w, err := s.put(ctx, t, existing, application{body: body, dryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, false, err
	}
	return w.Object, existing == nil || differs(existing, w.Object), nil
}

// differs reports whether applying a manifest changes an object. It does not if the manifest
// sets nothing, and the apply would only record that somebody has set what the object has.
func differs(existing, applied *wire.Object) bool {
	if bytes.Equal(existing.JSON(), applied.JSON()) {
		return false
	}
	before, err := jsontree.Decode(existing.JSON())
	if err != nil {
		return true
	}
	after, err := jsontree.Decode(applied.JSON())
	if err != nil {
		return true
	}
	u := unstructured.Unstructured{Object: after}
	for _, entry := range u.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	for _, tree := range []map[string]any{before, after} {
		unstructured.RemoveNestedField(tree, "metadata", "managedFields")
	}
	return !jsontree.Equal(before, after)
}

// unknownFields refuses unknown fields of a manifest, and says more of them than the apply.
func unknownFields(r *kinds.Resource, body []byte) error {
	_, _, err := r.Type.Decode(body, kinds.FieldsStrict)
	return err
}

// check reads everything again, and checks each object as far as that is possible before
// the others exist.
func (s *Seeder) check(ctx context.Context) error {
	seen := make(map[key]place, len(s.entries))
	next := 0
	for o, p := range s.objects() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p != nil {
			continue // index has reported it
		}
		if err := s.same(o, next); err != nil {
			return err
		}
		e := &s.entries[next]
		next++
		changed, err := s.checkOne(ctx, &o, seen)
		if err != nil {
			s.fail(*s.problem(o.place, o.title(), err))
			continue
		}
		e.key, e.phase, e.pending = o.key, phaseOf(s.kinds[o.kind]), changed
		if !changed {
			s.result.Unchanged++
		}
		s.progress(ctx, "check", next)
	}
	return nil
}

// same returns an error if a file was changed since it was read first.
func (s *Seeder) same(o object, i int) error {
	if i < len(s.entries) {
		if e := s.entries[i]; e.place == o.place && e.key.name == o.key.name {
			return nil
		}
	}
	return fmt.Errorf("%s was changed while it was read: start again", s.Files.Name(o.file))
}

// checkOne checks and prepares an object, and reports whether it has to be written.
func (s *Seeder) checkOne(ctx context.Context, o *object, seen map[key]place) (changed bool, err error) {
	if err := o.wrong(); err != nil {
		return false, err
	}
	r := s.kinds[o.kind]
	if r == nil {
		return false, s.unknown(o.kind)
	}
	for _, verb := range []string{"create", "get", "patch"} {
		if !slices.Contains(r.Verbs, verb) {
			return false, fmt.Errorf("objects of this kind cannot be applied, because the server does not %s them", verb)
		}
	}
	o.prepare(r)
	if first, has := seen[o.key]; has {
		return false, fmt.Errorf("the object is there twice: %s", s.problem(first, "", errors.New("the first")))
	}
	seen[o.key] = o.place
	if o.key.namespace != "" {
		exists, err := s.hasNamespace(ctx, o.key.namespace)
		if err != nil {
			return false, err
		}
		if !exists {
			return false, fmt.Errorf("there is no namespace %q: add a manifest of it", o.key.namespace)
		}
	}
	_, changed, err = s.attempt(ctx, *o, r)
	return changed, err
}

// hasNamespace reports whether a namespace exists, or is in the manifests.
func (s *Seeder) hasNamespace(ctx context.Context, name string) (bool, error) {
	if exists, known := s.namespaces[name]; known {
		return exists, nil
	}
	r := s.kinds[kinds.GroupVersionKind{Version: "v1", Kind: "Namespace"}]
	if r == nil {
		return false, nil
	}
	_, err := s.Verbs.Get(ctx, kinds.Target{Resource: r, Name: name}, "")
	if err != nil && !isReason(err, metav1.StatusReasonNotFound) {
		return false, err
	}
	s.namespaces[name] = err == nil
	return err == nil, nil
}

// unknown explains that a kind is not served.
func (s *Seeder) unknown(kind kinds.GroupVersionKind) error {
	var versions []string
	for known := range s.kinds {
		if known.GroupKind() == kind.GroupKind() {
			versions = append(versions, known.GroupVersion().String())
		}
	}
	if len(versions) > 0 {
		slices.Sort(versions)
		return fmt.Errorf("the server does not have this kind in apiVersion %s: use %s",
			kind.GroupVersion(), strings.Join(versions, " or "))
	}
	if !strings.Contains(kind.Group, ".") {
		return fmt.Errorf("the server has no kind %s in apiVersion %s", kind.Kind, kind.GroupVersion())
	}
	return fmt.Errorf("the server has no kind %s in apiVersion %s: add its CustomResourceDefinition, or correct it",
		kind.Kind, kind.GroupVersion())
}
