package convert

import (
	"testing"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FuzzAnswer reads answers of webhooks: no answer makes the server panic, and what is accepted
// has the name and the uid of what was sent.
func FuzzAnswer(f *testing.F) {
	const value = `{"apiVersion":"t.example.com/v1","kind":"Bar","metadata":{"name":"a","uid":"u",` +
		`"labels":{"a":"b"}},"spec":{"n":1}}`
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"x","convertedObjects":[` +
		`{"apiVersion":"t.example.com/v2","kind":"Bar","metadata":{"name":"a","uid":"u","labels":{"c":"d"}},"spec":{"n":"1"}}],"result":{"status":"Success"}}}`))
	f.Add([]byte(`{"response":{"result":{"status":"Failed","message":"no"}}}`))
	f.Add([]byte(`{"response":{"result":{"status":"Success"},"convertedObjects":[null,1,"x",[],{"metadata":[]},{"metadata":{"name":1}}]}}`))
	f.Add([]byte("{\"response\""))
	from := source{value: []byte(value), kind: schema.GroupVersionKind{Group: "t.example.com", Version: "v1", Kind: "Bar"}}
	to := schema.GroupVersion{Group: "t.example.com", Version: "v2"}
	f.Fuzz(func(t *testing.T, body []byte) {
		var all []k8sruntime.RawExtension
		for _, version := range []string{"v1", "v1beta1"} {
			raw, err := readAnswer(body, version, "x")
			if err == nil {
				all = append(all, raw...)
			}
		}
		for _, raw := range all {
			content, err := accept(from, raw, to)
			if err != nil {
				continue
			}
			metadata, _ := content["metadata"].(map[string]any)
			if content["apiVersion"] != "t.example.com/v2" || content["kind"] != "Bar" || metadata["name"] != "a" ||
				metadata["uid"] != "u" {
				t.Errorf("accepted %v", content)
			}
		}
	})
}
