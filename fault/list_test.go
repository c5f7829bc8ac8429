package fault

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/fault/internal/frames"
)

func listOfTwoPods(t testing.TB) (asJSON, asProtobuf []byte) {
	t.Helper()
	list := corev1.PodList{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"},
		Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}},
	}
	asJSON, err := json.Marshal(list)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	raw, err := list.Marshal()
	if err != nil {
		t.Fatalf("encode the list: %v", err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return asJSON, append([]byte(frames.Magic), envelope...)
}

func TestListsAreReadAsObjectsOfTheirKind(t *testing.T) {
	asJSON, asProtobuf := listOfTwoPods(t)
	for name, answer := range map[string][]byte{"JSON": asJSON, "protobuf": asProtobuf} {
		list, err := readList(answer)
		if err != nil || len(list.objects) != 2 || list.kind != "Pod" || list.resourceVersion != "7" {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		var kind, pod string
		if event := list.added(list.objects[1]); list.protobuf {
			unknown, meta, err := frames.OpenEvent(event)
			if err != nil {
				t.Fatalf("open the event: %v", err)
			}
			kind, pod = unknown.Kind, meta.Name
		} else {
			var e struct{ Object metav1.PartialObjectMetadata }
			if err := json.Unmarshal(event, &e); err != nil {
				t.Fatalf("decode JSON: %v", err)
			}
			kind, pod = e.Object.Kind, e.Object.Name
		}
		if kind != "Pod" || pod != "b" {
			t.Errorf("%s: %s %s", name, kind, pod)
		}
	}
	custom, err := readList([]byte(`{"kind":"WList","apiVersion":"x/v1","items":[{"kind":"W","apiVersion":"x/v1"},{}]}`))
	if err != nil || string(custom.objects[0]) != `{"kind":"W","apiVersion":"x/v1"}` ||
		string(custom.objects[1]) != `{"kind":"W","apiVersion":"x/v1"}` {
		t.Errorf("%q, %v", custom.objects, err)
	}
}

func FuzzReadList(f *testing.F) {
	asJSON, asProtobuf := listOfTwoPods(f)
	f.Add(asJSON)
	f.Add(asProtobuf)
	f.Add([]byte(`{"kind":"PodList","items":[{ }]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		list, err := readList(answer)
		if err != nil {
			return
		}
		for _, object := range list.objects {
			event := list.added(object)
			if !list.protobuf && !json.Valid(event) {
				t.Errorf("%q has the event %q", answer, event)
			}
		}
		if end := list.end(); !list.protobuf && (!json.Valid(end) || bytes.Contains(end, []byte("\n"))) {
			t.Errorf("%q ends with %q", answer, end)
		}
	})
}
