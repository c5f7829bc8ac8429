package webhook

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// FuzzAnswer reads answers of webhooks, and applies their patches: nothing makes the server panic,
// what is accepted of v1 has the uid, and an object is not changed by a failed patch.
func FuzzAnswer(f *testing.F) {
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","list":"[]"}}`
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true,` +
		`"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEvYiIsInZhbHVlIjoiMiJ9XQ=="}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"patch":"W10="}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","status":{"code":-1,"details":{"causes":[null]}}}}`))
	f.Add([]byte(`[{"op":"copy","from":"/data","path":"/data/x"},{"op":"move","from":"/data/x","path":"/data/x/y"}]`))
	f.Add([]byte("k8s\x00\n"))
	f.Add([]byte("apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nresponse: {uid: x}"))
	d := decoder()
	f.Fuzz(func(t *testing.T, body []byte) {
		content, err := jsontree.Decode([]byte(object))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		same, _ := jsontree.Decode([]byte(object))
		patches := [][]byte{body}
		for _, version := range []string{"v1", "v1beta1"} {
			for _, mutates := range []bool{true, false} {
				said, err := readAnswer(d, body, review{version: version, uid: "x", mutates: mutates})
				if err != nil {
					continue
				}
				if len(said.patch) > 0 && !mutates {
					t.Error("a validating webhook patches")
				}
				if !said.allowed {
					_ = denied("w", said.result)
				}
				patches = append(patches, said.patch)
			}
		}
		for _, p := range patches {
			after, changed, err := patched(content, p)
			if err == nil && changed == jsontree.Equal(content, after) {
				t.Errorf("changed is %t", changed)
			}
		}
		if !jsontree.Equal(content, same) {
			t.Error("the object was changed in place")
		}
	})
}
