package plugins_test

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
)

func TestPluginsForEverythingKeepTheirPlace(t *testing.T) {
	var asked []string
	plugin := func(name string, resource kinds.GroupResource, subresource string) plugins.Plugin {
		return plugins.Plugin{
			Name: name,
			Concerns: []plugins.Concern{
				{Resource: resource, Subresource: subresource, Operations: []upstream.Operation{upstream.Create}},
			},
			Validate: func(context.Context, *plugins.Write) error { asked = append(asked, name); return nil },
		}
	}
	pods := kinds.GroupResource{Resource: "pods"}
	set := plugins.NewSet(plugin("a", pods, ""), plugin("b", plugins.Everything, ""), plugin("c", pods, ""),
		plugin("d", pods, "binding"), plugin("e", plugins.Everything, ""))
	for _, c := range []struct {
		resource, subresource string
		op                    upstream.Operation
		want                  []string
	}{
		{"pods", "", upstream.Create, []string{"a", "b", "c", "e"}},
		{"pods", "binding", upstream.Create, []string{"b", "d", "e"}},
		{"pods", "eviction", upstream.Create, []string{"b", "e"}},
		{"nodes", "", upstream.Create, []string{"b", "e"}},
		{"pods", "", upstream.Update, nil},
	} {
		asked = nil
		gvr := apischema.GroupVersionResource{Version: "v1", Resource: c.resource}
		err := set.Validate(t.Context(), upstream.NewAttributesRecord(&unstructured.Unstructured{}, nil,
			apischema.GroupVersionKind{}, "n", "x", gvr, c.subresource, c.op, nil, false, nil))
		if err != nil || !slices.Equal(asked, c.want) {
			t.Errorf("%v: %v asked, %v; want %v", c, asked, err, c.want)
		}
		if got := set.Handles(&kinds.Resource{Plural: c.resource}, c.subresource, c.op); got != (c.want != nil) {
			t.Errorf("%v: it handles it: %v", c, got)
		}
	}
}
