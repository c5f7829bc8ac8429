package custom_test

import (
	"encoding/json"
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/wire"
)

func FuzzResources(f *testing.F) {
	for _, name := range []string{"foos", "certificates", "bundles"} {
		body, err := definition(f, name, kinds.NewCatalog()).MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body,
			[]byte(`{"apiVersion":"samplecontroller.k8s.io/v1","kind":"Foo","metadata":{"name":"a"},"spec":{"deploymentName":"d"}}`))
	}
	f.Fuzz(func(t *testing.T, body, object []byte) {
		// What is loaded has passed validation before it was stored.
		u := &unstructured.Unstructured{}
		if json.Unmarshal(body, &u.Object) != nil || u.Object == nil {
			return
		}
		custom.DefaultDefinition(u.Object)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, crd) != nil || len(custom.CheckDefinition(crd)) > 0 {
			if list, err := custom.Resources(body); err == nil {
				exercise(t, list, object)
			}
			return
		}
		if err := custom.Establish(u, kinds.NewCatalog(), now()); err != nil {
			t.Fatal(err)
		}
		encoded, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		list, err := custom.Resources(encoded)
		if err != nil {
			t.Fatalf("a valid definition cannot be loaded: %v", err)
		}
		exercise(t, list, object)
	})
}

// exercise does to an object what a write and a table do.
func exercise(t *testing.T, list []*kinds.Resource, object []byte) {
	t.Helper()
	for _, r := range list {
		u, _, err := r.Type.Decode(object, kinds.FieldsWarn)
		if err != nil {
			if _, ok := errors.AsType[*wire.StatusError](err); !ok {
				t.Fatalf("got %v (%T), want a *wire.StatusError", err, err)
			}
			continue
		}
		if err := r.Type.Default(u); err != nil {
			t.Fatal(err)
		}
		r.Type.Validate(u, nil)
		r.Type.Validate(u, u.DeepCopy())
		value, err := wire.Canonical(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := wire.NewObject(value, 7, r.Fields); err == nil {
			r.Row(o)
		}
	}
}
