package registry_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
)

// FuzzBodies sends anything as the body of every verb that takes one: the answer
// is a 4xx or a success, and the registry still works.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		configMap("a"), foo("a", `{"n":1e3}`), foo("a", `null`), foo("a", `[]`), definition(""), podOnNode,
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":null}`,
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a","finalizers":["x.io/f"]},"status":7}`,
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a","deletionGracePeriodSeconds":-1,"generation":9223372036854775807}}`,
		`{"metadata":{"generateName":"` + strings.Repeat("x", 300) + `"}}`,
		`{"metadata":{"name":"a","namespace":"","labels":{"":""},"finalizers":[""]},"spec":{"finalizers":[1]},"status":[]}`,
		`{"metadata":{"resourceVersion":"18446744073709551615","uid":"x"}}`,
		`{"metadata":{"finalizers":null,"name":null}}`, `[{"op":"replace","path":"/metadata","value":[]}]`, `null`, ``, "\xff",
	} {
		f.Add([]byte(body))
	}
	shared := serve(f)
	shared.create(shared.at(crds),
		strings.Replace(definition(""), `{"type":"object","properties":{"spec"`,
			`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec"`, 1))
	f.Fuzz(func(t *testing.T, body []byte) {
		ctx := t.Context()
		s := &server{Registry: shared.Registry, t: t, log: shared.log, live: shared.live}
		for _, at := range []struct{ resource, namespace string }{
			{"configmaps", "default"},
			{foos, "default"},
			{"pods", "default"},
			{"namespaces", ""},
			{"coordination.k8s.io/v1/leases", "default"},
		} {
			all := s.at(at.resource, at.namespace)
			named := s.at(at.resource, at.namespace, "a")
			check := func(verb string, err error) {
				if code := wire.StatusOf(err).Code; err != nil && (code < 400 || code > 499) {
					t.Errorf("%s %s %q: %v", verb, at.resource, body, err)
				}
			}
			out, err := s.Create(ctx, all, body, metav1.CreateOptions{})
			check("create", err)
			_, again := s.Update(ctx, named, body, metav1.UpdateOptions{})
			check("update", again)
			for _, kind := range []types.PatchType{types.MergePatchType, types.JSONPatchType, types.StrategicMergePatchType} {
				for _, subresource := range []string{"", "status", "scale"} {
					named.Subresource = subresource
					_, err := s.Patch(ctx, named, wire.Patch{Type: kind, Body: body}, metav1.PatchOptions{})
					check(string(kind)+" "+subresource, err)
				}
			}
			named.Subresource = ""
			if err == nil {
				named.Name = out.Object.Key().Name
			}
			_, err = s.Delete(ctx, named, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			check("delete", err)
		}
		if err := s.Ready(); err != nil {
			t.Fatalf("%q stopped the registry: %v", body, err)
		}
	})
}
