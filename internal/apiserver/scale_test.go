package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// inProtobuf encodes as client-go does.
func inProtobuf(t *testing.T, o runtime.Object) string {
	t.Helper()
	kinds, _, err := clientscheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatalf("object kinds: %v", err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	raw, err := runtime.Encode(protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme), o)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return string(raw)
}

// Its body is an autoscaling/v1 Scale, whatever is scaled: client-go's typed clients
// send it in protobuf.
func TestScaleCanBeSetInProtobuf(t *testing.T) {
	const (
		deployments = "/apis/apps/v1/namespaces/default/deployments"
		foos        = "/apis/t.example.com/v1/namespaces/default/foos"
		media       = "Content-Type: application/vnd.kubernetes.protobuf"
	)
	d := openServer(t, nil)
	scalable := strings.Replace(definition, `"schema":{"openAPIV3Schema":{"type":"object"}}`,
		`"schema":{"openAPIV3Schema":{"type":"object",
		"properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}},"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}},
		"subresources":{"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}}`, 1)
	for path, body := range map[string]string{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": scalable,
		deployments: `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},` +
			`"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	} {
		if a := d.do("POST", path, body); a.StatusCode != http.StatusCreated {
			t.Fatal(a.body)
		}
	}
	if a := d.do("POST",
		foos,
		`{"kind":"Foo","apiVersion":"t.example.com/v1","metadata":{"name":"d"},"spec":{"n":1}}`); a.StatusCode !=
		http.StatusCreated {
		t.Fatal(a.body)
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: 7},
	}
	for path, field := range map[string]string{deployments + "/d": "replicas", foos + "/d": "n"} {
		if a := d.do("PUT",
			path+"/scale", inProtobuf(t, scale), media); a.StatusCode != http.StatusOK ||
			at(tree(t, a.body), "spec", "replicas") != float64(7) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		if got := at(tree(t, d.do("GET", path, "").body), "spec", field); got != float64(7) {
			t.Errorf("%s: %s is %v, want 7", path, field, got)
		}
		other := inProtobuf(t, &appsv1.Deployment{ObjectMeta: scale.ObjectMeta})
		if a := d.do("PUT",
			path+"/scale", other, media); a.StatusCode != http.StatusBadRequest ||
			!strings.Contains(a.body, "cannot be handled as a Scale") {
			t.Errorf("%s: a deployment as a scale: %d %s", path, a.StatusCode, a.body)
		}
		if a := d.do("PUT", path+"/scale", "k8s\x00\x0a\xff", media); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: a broken scale: %d %s", path, a.StatusCode, a.body)
		}
	}
}

// The other body that is not of its resource's kind.
func TestDeleteOptionsCanBeProtobuf(t *testing.T) {
	const media = "Content-Type: application/vnd.kubernetes.protobuf"
	const pods, foos = "/api/v1/namespaces/default/pods", "/apis/t.example.com/v1/namespaces/default/foos"
	d := openServer(t, nil)
	d.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	d.do("POST", foos, `{"kind":"Foo","apiVersion":"t.example.com/v1","metadata":{"name":"p"}}`)
	d.do("POST",
		pods, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	for _, path := range []string{pods, foos} {
		one := path + "/p"
		if a := d.do("DELETE",
			one, inProtobuf(t, &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}),
			media); a.StatusCode != http.StatusConflict {
			t.Errorf("%s with the precondition of another: %d %s", one, a.StatusCode, a.body)
		}
		if a := d.do("DELETE",
			one, inProtobuf(t, &metav1.DeleteOptions{DryRun: []string{"All"}}), media); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", one, a.StatusCode, a.body)
		}
		if a := d.do("GET", one, ""); a.StatusCode != http.StatusOK {
			t.Errorf("%s: a dry run deleted it: %s", one, a.body)
		}
		if a := d.do("DELETE", path, inProtobuf(t, &metav1.DeleteOptions{}), media); a.StatusCode != http.StatusOK {
			t.Errorf("the collection %s: %d %s", path, a.StatusCode, a.body)
		}
	}
}
