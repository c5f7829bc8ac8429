package wire_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// looks are all that can be read from an object.
type looks struct {
	json, value, metadata, content, untyped string
	key                                     wire.Key
	uid, apiVersion, kind, created          string
	rv                                      kube.ResourceVersion
	generation                              int64
	deleting                                bool
	labels                                  map[string]string
	nodeName, phase                         string
	knows                                   bool
	finalizers                              []string
	size                                    int
}

func looksOf(o *wire.Object) looks {
	return looks{
		json: string(o.JSON()), value: string(o.Value()), metadata: string(o.Metadata()), content: string(o.Content()),
		untyped: string(o.Untyped()), key: o.Key(), uid: string(o.UID()), apiVersion: o.APIVersion(), kind: o.Kind(),
		created: o.Created().String(), rv: o.ResourceVersion(), generation: o.Generation(), deleting: o.Deleting(),
		labels: o.Labels(), nodeName: o.Fields().Get("n"), phase: o.Fields().Get("p"), knows: o.Fields().Has("p"),
		finalizers: o.Finalizers(), size: o.Size(),
	}
}

// FuzzLazily: an object that reads itself later is the one that NewObject makes, and so is all that is made of it; what the one
// refuses the other does.
func FuzzLazily(f *testing.F) {
	for _, seed := range []string{
		pod, `{}`, `null`, `{"metadata":{}}`, `{"metadata":{"resourceVersion":"5","labels":{"a":"b"}}}`, "{\"metadata\":\n{}}",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"},"managedFields":[{"time":"x"}]},"spec":{"nodeName":"n"}}`,
		`{"metadata":{"managedFields":[]},"status":{"phase":"p"}}`, `{"metadata":{"labels":{"a":1}}}`,
		`{"metadata":{"creationTimestamp":"x"}}`, `{"metadata":{"generation":"x"}}`, `{"metadata":{"name":"a"},"metadata":{}}`,
	} {
		f.Add([]byte(seed))
	}
	sel := []wire.FieldPath{
		{Label: "n", Path: []string{"spec", "nodeName"}}, {Label: "p", Path: []string{"status", "phase"}, Default: "none"},
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, refused := wire.NewObject(raw, 42, sel)
		var lazily wire.Lazily
		lazily.Grow(2, 2*len(raw))
		got, err := lazily.Object(raw, 42, sel)
		if (err != nil) != (refused != nil) {
			t.Fatalf("%q: %v, and NewObject says %v", raw, err, refused)
		}
		if err != nil {
			if _, is := errors.AsType[*kube.DecodeError](err); !is {
				t.Errorf("%v is no DecodeError", err)
			}
			return
		}
		next, err := lazily.Object(raw, 1<<60, sel) // its bytes follow in the same memory
		if err != nil {
			t.Fatalf("the second time: %v", err)
		}
		for name, made := range map[string]func(o *wire.Object) *wire.Object{
			"itself":                 func(o *wire.Object) *wire.Object { return o },
			"another version of it":  func(o *wire.Object) *wire.Object { return o.WithAPIVersion("x/v9") },
			"it at another time":     func(o *wire.Object) *wire.Object { return o.WithResourceVersion(1 << 62) },
			"without managed fields": (*wire.Object).WithoutManagedFields,
			"with content": func(o *wire.Object) *wire.Object {
				other, err := o.WithContent(map[string]any{"metadata": map[string]any{"name": "b"}})
				if err != nil {
					t.Fatalf("give it content: %v", err)
				}
				return other
			},
		} {
			if diff := cmp.Diff(looksOf(made(want)), looksOf(made(got)), cmp.AllowUnexported(looks{})); diff != "" {
				t.Errorf("%q: %s (-want +got):\n%s", raw, name, diff)
			}
		}
		if diff := cmp.Diff(looksOf(want.WithResourceVersion(1<<60)), looksOf(next), cmp.AllowUnexported(looks{})); diff != "" {
			t.Errorf("%q: the next (-want +got):\n%s", raw, diff)
		}
	})
}
