package metadata_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/registry/metadata"
)

func TestMetadataWithManyErrorsShowsTheFirst(t *testing.T) {
	const names = 5000
	for _, test := range []struct {
		name      string
		bad       int // how many of the names are invalid
		wantFlood bool
	}{{"none", 0, false}, {"few", 10, false}, {"all", names, true}} {
		name := func(i int) string {
			if i < test.bad {
				return fmt.Sprintf("-%d", i)
			}
			return fmt.Sprintf("example.com/%d", i)
		}
		finalizers, pairs := make([]string, names), make(map[string]string, names)
		for i := range finalizers {
			finalizers[i] = name(i)
			pairs[name(i)] = "x"
		}
		for _, put := range []func(*unstructured.Unstructured){
			func(u *unstructured.Unstructured) { u.SetFinalizers(finalizers) },
			func(u *unstructured.Unstructured) { u.SetLabels(pairs) },
			func(u *unstructured.Unstructured) { u.SetAnnotations(pairs) },
		} {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			put(u)
			errs := metadata.Flooded(u, field.NewPath("metadata"))
			if flood := len(errs) >= metadata.ShownErrors; flood != test.wantFlood || len(errs) > metadata.ShownErrors+10 {
				t.Errorf("%s of %d names are invalid: %d errors", test.name, names, len(errs))
			}
		}
	}
}
