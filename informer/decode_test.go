package informer_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/informer"
)

// FuzzObject: no input panics, and what decodes is what client-go's decoder makes of it.
func FuzzObject(f *testing.F) {
	f.Add([]byte(realisticPod(1, 7)))
	for _, seed := range []string{
		`{}`, `null`, `7`, `{"metadata":null}`,
		`{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"x","resources":{"limits":{"cpu":"1"}}}]}}`,
		`{"metadata":{"creationTimestamp":null,"name":"a"}}`, `{"metadata":{"name":"a","name":"b"}}`,
	} {
		f.Add([]byte(seed))
	}
	typed, dynamic := informer.JSON[*corev1.Pod](), informer.JSON[*unstructured.Unstructured]()
	f.Fuzz(func(t *testing.T, input []byte) {
		_, _ = dynamic(input)
		got, err := typed(input)
		if err != nil {
			return
		}
		var want corev1.Pod
		if err := kjson.UnmarshalCaseSensitivePreserveInts(input, &want); err != nil {
			t.Fatalf("%q is taken, client-go's decoder: %v", input, err)
		}
		if !cmp.Equal(*got, want) {
			t.Errorf("%q:\n%s", input, cmp.Diff(want, *got))
		}
	})
}

func TestDecodedPodsEqualThoseOfEncodingJSON(t *testing.T) {
	raw := []byte(realisticPod(3, 9))
	got, err := informer.JSON[*corev1.Pod]()(raw)
	if err != nil {
		t.Fatalf("decode a pod: %v", err)
	}
	var want corev1.Pod
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
	if len(got.Spec.Containers) != 1 || len(got.ManagedFields) != 2 || len(got.Status.Conditions) != 4 {
		t.Errorf("the pod is not what it should be: %v", got)
	}
}

func TestNullIsADecodeError(t *testing.T) {
	if _, err := informer.JSON[*corev1.Pod]()([]byte(`null`)); err == nil {
		t.Error("null is taken")
	}
}

// values has what a custom resource with settings of any kind has.
type values struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Values map[string]any `json:"values"`
		Number json.Number    `json:"number"`
	} `json:"spec"`
}

func TestIntegersOfAnyTypeAreInt64(t *testing.T) {
	for name, decode := range map[string]func([]byte) (*values, error){
		"alone": informer.JSON[*values](), "shared": informer.SharedJSON[*values](),
	} {
		got, err := decode([]byte(`{"metadata":{"name":"a"},"spec":{"values":{"id":9007199254740993,"part":1.5},"number":5}}`))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Spec.Values["id"] != int64(9007199254740993) || got.Spec.Values["part"] != 1.5 || got.Spec.Number != "5" {
			t.Errorf("%s: %#v", name, got.Spec)
		}
	}
}
