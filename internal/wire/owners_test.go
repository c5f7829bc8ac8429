package wire_test

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestOwnerReferencesAndFinalizersAreRead(t *testing.T) {
	o := newObject(t, `{"data":{"x":"y"},"metadata":{"finalizers":["orphan","x.io/\u0066"],"name":"a","ownerReferences":[`+
		`{"apiVersion":"v1","blockOwnerDeletion":true,"kind":"ConfigMap","name":"o","uid":"1"},{"apiVersion":"apps/v1",`+
		`"controller":true,"kind":"Deployment","name":"d","uid":"2"}]}}`, 7)
	want := []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "1", BlockOwnerDeletion: new(true)},
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", UID: "2", Controller: new(true)},
	}
	if diff := cmp.Diff(want, o.OwnerReferences()); diff != "" || !o.Owned() {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if got := o.Finalizers(); !slices.Equal(got, []string{"orphan", "x.io/f"}) {
		t.Errorf("finalizers %q", got)
	}
	if later := o.WithResourceVersion(8000000); !wire.SameOwnerReferences(o, later) || len(later.OwnerReferences()) != 2 ||
		len(later.Finalizers()) != 2 {
		t.Error("another resourceVersion changed the owners")
	}
	for _, text := range []string{
		`{"metadata":{"name":"a"}}`, `{"metadata":{"name":"a","ownerReferences":[],"finalizers":[]}}`,
		`{"metadata":{"name":"a","ownerReferences":null,"finalizers":null}}`,
		`{"metadata":{"name":"a","ownerReferences":{},"finalizers":"x"}}`,
		`{"metadata":{"name":"a","labels":{"ownerReferences":"x"}}}`,
	} {
		other := newObject(t, text, 7)
		if other.Owned() || other.OwnerReferences() != nil || len(other.Finalizers()) != 0 || wire.SameOwnerReferences(o, other) {
			t.Errorf("%s has owners or finalizers", text)
		}
	}
	if odd := newObject(t, `{"metadata":{"name":"a","ownerReferences":[1]}}`, 7); !odd.Owned() || odd.OwnerReferences() != nil {
		t.Error("a number was read as a reference")
	}
}

// FuzzOwners: what is read are the owners and finalizers that a decoder reads that does not fold
// the case of names.
func FuzzOwners(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","finalizers":["x"],"ownerReferences":[{"uid":"1","blockOwnerDeletion":true}]}}`))
	f.Add([]byte(`{"metadata":{"ownerReferences":[{}],"ownerReferences":[]},"metadata":{"finalizers":[]}}`))
	f.Add([]byte(`{"metadata":{"ownerReferences":[{}],"ownerReferenCes":[]}}`))
	options := json.JoinOptions(jsonv1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false))
	f.Fuzz(func(t *testing.T, input []byte) {
		o, err := wire.ParseObject(input, nil)
		if err != nil {
			return
		}
		var typed struct {
			Metadata struct {
				OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
				Finalizers      []string                `json:"finalizers"`
			} `json:"metadata"`
		}
		refs, finalizers := o.OwnerReferences(), o.Finalizers()
		if json.Unmarshal(o.JSON(), &typed, options) != nil || len(refs) == 0 && len(finalizers) == 0 {
			return
		}
		if len(refs) > 0 && len(typed.Metadata.OwnerReferences) == 0 ||
			len(finalizers) > 0 && len(typed.Metadata.Finalizers) == 0 {
			t.Errorf("%q: %v and %q, want %v and %q",
				input, refs, finalizers, typed.Metadata.OwnerReferences, typed.Metadata.Finalizers)
		}
	})
}
