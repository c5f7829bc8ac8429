package informer_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/informer"
)

// FuzzObject: no input panics, and what decodes is what encoding/json makes of it.
// (Inputs whose member names differ in case only are where they differ on purpose.)
func FuzzObject(f *testing.F) {
	f.Add([]byte(realisticPod(1, 7)))
	for _, seed := range []string{`{}`, `null`, `7`, `{"metadata":null}`, `{"metadata":{"name":"a","labels":{"a":"b"}},"spec":{"containers":[{"name":"x","resources":{"limits":{"cpu":"1"}}}]}}`, `{"metadata":{"creationTimestamp":null,"name":"a"}}`, `{"metadata":{"name":"a","name":"b"}}`} {
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
		if err := json.Unmarshal(input, &want); err != nil {
			t.Fatalf("%q is taken, encoding/json: %v", input, err)
		}
		if exact(input) && !cmp.Equal(*got, want) {
			t.Errorf("%q:\n%s", input, cmp.Diff(want, *got))
		}
	})
}

// exact says that encoding/json, which folds case, finds no name that it would take
// for another one.
func exact(input []byte) bool {
	for _, c := range input {
		if 'A' <= c && c <= 'Z' || c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

func TestDecodedPodsEqualThoseOfEncodingJSON(t *testing.T) {
	raw := []byte(realisticPod(3, 9))
	got, err := informer.JSON[*corev1.Pod]()(raw)
	if err != nil {
		t.Fatal(err)
	}
	var want corev1.Pod
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
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
