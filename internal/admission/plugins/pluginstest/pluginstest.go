// Package pluginstest asks admission plugins about writes, for their tests.
package pluginstest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Tree parses YAML.
func Tree(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("parse YAML: %v", err)
	}
	u := &unstructured.Unstructured{}
	// Numbers of requests are int64, as UnmarshalJSON makes them, which wants a kind.
	if err := u.UnmarshalJSON(json); err != nil {
		t.Fatalf("parse JSON: %v", err)
	}
	return u
}

// Table is a plugins.Table.
type Table interface {
	Follows() []kinds.GroupResource
	Replace(gr kinds.GroupResource, objects []*wire.Object)
}

// Fill gives a table objects, in YAML.
func Fill(t testing.TB, table Table, objects ...string) {
	t.Helper()
	var all []*wire.Object
	for _, text := range objects {
		all = append(all, Object(t, text))
	}
	table.Replace(table.Follows()[0], all)
}

// Object makes a stored object of YAML.
func Object(t testing.TB, text string) *wire.Object {
	t.Helper()
	json, err := Tree(t, text).MarshalJSON()
	if err != nil {
		t.Fatalf("marshal JSON: %v", err)
	}
	o, err := wire.ParseObject(json, nil)
	if err != nil {
		t.Fatalf("parse an object: %v", err)
	}
	return o
}

// Asked is a plugin that is asked about writes of a resource.
type Asked struct {
	plugin      plugins.Plugin
	resource    kinds.GroupResource
	subresource string
	caller      user.Info
	dryRun      bool
}

// Of asks a plugin about writes of a resource.
func Of(p plugins.Plugin, resource kinds.GroupResource) Asked {
	return Asked{plugin: p, resource: resource}
}

// Subresource asks about writes of a subresource.
func (q Asked) Subresource(name string) Asked {
	q.subresource = name
	return q
}

// By asks about writes of a user.
func (q Asked) By(name string, groups ...string) Asked {
	q.caller = &user.DefaultInfo{Name: name, Groups: groups}
	return q
}

// DryRun asks about writes that store nothing.
func (q Asked) DryRun() Asked {
	q.dryRun = true
	return q
}

// About lets the plugin change now, and then validate it. Old is nil for a creation.
func (q Asked) About(t testing.TB, now, old *unstructured.Unstructured) error {
	t.Helper()
	op := upstream.Create
	if old != nil {
		op = upstream.Update
	}
	return q.ask(t, op, now, old)
}

// AboutDeletion asks the plugin about the deletion of an object.
func (q Asked) AboutDeletion(t testing.TB, old *unstructured.Unstructured) error {
	t.Helper()
	return q.ask(t, upstream.Delete, nil, old)
}

func (q Asked) ask(t testing.TB, op upstream.Operation, now, old *unstructured.Unstructured) error {
	t.Helper()
	of := old
	var object, before runtime.Object
	if now != nil {
		object, of = now, now
	}
	if old != nil {
		before = old
	}
	set := plugins.NewSet(q.plugin)
	resource := apischema.GroupVersionResource{Group: q.resource.Group, Version: "v1", Resource: q.resource.Resource}
	a := upstream.NewAttributesRecord(object, before, of.GroupVersionKind(), of.GetNamespace(), of.GetName(), resource,
		q.subresource, op, nil, q.dryRun, q.caller)
	if err := set.Admit(t.Context(), a, func() error { return nil }); err != nil {
		return err
	}
	return set.Validate(t.Context(), a)
}
