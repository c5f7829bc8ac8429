package builtin

import (
	"encoding/json"
	"fmt"

	apiextensionsfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/kubernetes/pkg/api/testing"
	"sigs.k8s.io/randfill"
)

// Random returns n objects of a target's kind that upstream's fuzzers have filled. They
// have a valid name and no other metadata, so that what else is invalid is found. The same
// seed returns the same objects.
func (u Upstream) Random(t Target, seed int64, n int) ([]Case, error) {
	r := t.Resource
	kind := u.kinds[r.GR().String()]
	funcs := fuzzer.MergeFuzzerFuncs(kubetesting.FuzzerFuncs, apiextensionsfuzzer.Funcs)
	// As fuzzer.FuzzerFor does.
	fill := randfill.NewWithSeed(seed).NilChance(0.5).NumElements(0, 1).Funcs(funcs(kind.codecs)...)
	internal := schema.GroupVersionKind{Group: r.Group, Version: runtime.APIVersionInternal, Kind: r.Kind}
	all := make([]Case, 0, n)
	for i := range n {
		object, err := kind.scheme.New(internal)
		if err != nil {
			return nil, fmt.Errorf("make a %s: %w", r.Kind, err)
		}
		fill.Fill(object)
		made := kind.shown(t, object)
		if made.Err != nil {
			return nil, made.Err
		}
		metadata := map[string]any{"name": "random"}
		if t.Namespace != "" {
			metadata["namespace"] = t.Namespace
		}
		made.Object["metadata"] = metadata
		body, err := json.Marshal(made.Object)
		if err != nil {
			return nil, fmt.Errorf("encode a random %s: %w", r.Kind, err)
		}
		all = append(all, Case{What: fmt.Sprintf("random object %d of seed %d", i, seed), Body: body})
	}
	return all, nil
}
