// Package pluginstest asks admission plugins about writes, for their tests.
package pluginstest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"
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
	plugin   plugins.Plugin
	resource kinds.GroupResource
}

// Of asks a plugin about writes of a resource.
func Of(p plugins.Plugin, resource kinds.GroupResource) Asked { return Asked{p, resource} }

// About lets the plugin change now, and then validate it. Old is nil for a creation.
func (q Asked) About(t testing.TB, now, old *unstructured.Unstructured) error {
	t.Helper()
	op, set := upstream.Create, plugins.NewSet(q.plugin)
	var before runtime.Object
	if old != nil {
		op, before = upstream.Update, old
	}
	resource := apischema.GroupVersionResource{Group: q.resource.Group, Version: "v1", Resource: q.resource.Resource}
	a := upstream.NewAttributesRecord(now, before, now.GroupVersionKind(), now.GetNamespace(), now.GetName(), resource, "",
		op, nil, false, nil)
	if err := set.Admit(t.Context(), a, func() error { return nil }); err != nil {
		return err
	}
	return set.Validate(t.Context(), a)
}
