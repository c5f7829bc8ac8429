package apiserver_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The Accept headers that clients send, as recorded from them.
const (
	acceptAggregated = "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	acceptLegacy     = "Accept: application/json, */*"
	acceptTable      = "Accept: " +
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	acceptTableOnly = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io"
	acceptProtobuf  = "Accept: application/vnd.kubernetes.protobuf,application/json"
	acceptProtoAny  = "Accept: application/vnd.kubernetes.protobuf, */*"
	acceptJSON      = "Accept: application/json"
)

// TestCommonClientRequestsAreServed sends the GETs that were recorded from real
// clients; want is the kind that the answer must have.
func TestCommonClientRequestsAreServed(t *testing.T) {
	d := openServer(t, nil)
	d.create("cm-1", "")
	for _, c := range []struct {
		name, path, accept, kind, media string
		code                            int
	}{
		{
			name: "kubectl 1.37 /api", path: "/api?timeout=32s", accept: acceptAggregated, kind: "APIGroupDiscoveryList",
			media: aggregatedType("v2"),
		},
		{
			name: "kubectl 1.37 /apis", path: "/apis?timeout=32s", accept: acceptAggregated, kind: "APIGroupDiscoveryList",
			media: aggregatedType("v2"),
		},
		{
			name: "client-go 1.26 /apis", path: "/apis?timeout=32s", kind: "APIGroupDiscoveryList",
			media:  aggregatedType("v2beta1"),
			accept: "Accept: application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json",
		},
		{name: "kubectl 1.20 /api", path: "/api?timeout=32s", accept: acceptLegacy, kind: "APIVersions"},
		{name: "kubectl 1.20 /apis", path: "/apis?timeout=32s", accept: acceptLegacy, kind: "APIGroupList"},
		{name: "kubectl /api/v1", path: "/api/v1?timeout=32s", accept: acceptLegacy, kind: "APIResourceList"},
		{name: "kubectl get", path: configMaps + "?limit=500", accept: acceptTable, kind: "Table"},
		{name: "kubectl get, strict", path: configMaps + "?limit=500", accept: acceptTableOnly, kind: "Table"},
		{name: "kubectl get name", path: configMaps + "/cm-1", accept: acceptTable, kind: "Table"},
		{name: "kubectl get of nothing", path: configMaps + "/cm-2", accept: acceptTable, kind: "Status", code: 404},
		{
			name: "client-go 0.20 list", path: configMaps + "?limit=500&resourceVersion=0", accept: acceptLegacy,
			kind: "ConfigMapList",
		},
		{
			name: "client-go 0.37 list", path: configMaps + "?limit=500", accept: acceptProtobuf, kind: "ConfigMapList",
			media: protobufType,
		},
		{name: "client-node 1.4 list", path: configMaps, accept: "Accept: application/json, */*;q=0.8", kind: "ConfigMapList"},
		{name: "node-fetch", path: configMaps, accept: "Accept: */*", kind: "ConfigMapList"},
		{name: "nothing", path: configMaps, accept: "Accept: ", kind: "ConfigMapList"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, client := range []*http.Client{d.h1, d.h2} {
				a := d.by(client, "GET", c.path, "", c.accept)
				wantCode, wantMedia := max(c.code, 200), c.media
				if c.code == 0 {
					wantCode = 200
				}
				if wantMedia == "" {
					wantMedia = "application/json"
				}
				if a.StatusCode != wantCode || a.Header.Get("Content-Type") != wantMedia {
					t.Errorf("%s: %d %q, want %d %q: %s",
						a.Proto, a.StatusCode, a.Header.Get("Content-Type"), wantCode, wantMedia, a.body)
				}
				if got := at(tree(t, a.body), "kind"); got != c.kind {
					t.Errorf("%s: kind %v, want %s", a.Proto, got, c.kind)
				}
			}
		})
	}
}

// TestCommonClientWatchesAreServed sends the watches that were recorded from real
// clients. N stands for the resourceVersion of the list.
func TestCommonClientWatchesAreServed(t *testing.T) {
	d := openServer(t, nil)
	d.create("cm-1", "")
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	d.create("cm-2", "")
	for _, c := range []struct {
		name, query, accept string
		want                []string
	}{
		{"kubectl get -w", "resourceVersion=N&watch=true", acceptTable, []string{"ADDED"}},
		{
			"client-go 0.37 streaming list",
			"allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeout=7m40s&timeoutSeconds=460&watch=true",
			acceptProtobuf,
			[]string{"ADDED cm-1", "ADDED cm-2", "BOOKMARK"},
		},
		{
			"controller-runtime 0.25 streaming list",
			"allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=330&watch=true",
			acceptProtoAny,
			[]string{"ADDED cm-1", "ADDED cm-2", "BOOKMARK"},
		},
		{
			"client-go 0.20", "allowWatchBookmarks=true&resourceVersion=N&timeout=9m26s&timeoutSeconds=566&watch=true",
			acceptLegacy,
			[]string{"ADDED cm-2"},
		},
		{
			"python 22.6", "allowWatchBookmarks=True&resourceVersion=N&timeoutSeconds=5&watch=True", acceptJSON,
			[]string{"ADDED cm-2"},
		},
		{"python 22.6 without a version", "timeoutSeconds=3&watch=True", acceptJSON, []string{"ADDED cm-1", "ADDED cm-2"}},
		{"client-node 1.4", "watch=true&resourceVersion=N", "Accept: */*", []string{"ADDED cm-2"}},
		{"an empty value is true", "watch=&resourceVersion=N", acceptJSON, []string{"ADDED cm-2"}},
		{"typed stream", "watch=1&resourceVersion=N", "Accept: application/json;stream=watch", []string{"ADDED cm-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, client := range []*http.Client{d.h1, d.h2} {
				media := "application/json"
				if strings.HasPrefix(c.accept, protobufAccepted) {
					media = protobufType + ";stream=watch"
				}
				s := d.open(client, configMaps+"?"+strings.Replace(c.query, "resourceVersion=N", "resourceVersion="+rv, 1),
					c.accept)
				if s.resp.StatusCode != http.StatusOK || s.resp.Header.Get("Content-Type") != media || s.resp.ContentLength >= 0 {
					s.lines.Scan()
					t.Fatalf("%s: %d %v %s", s.resp.Proto, s.resp.StatusCode, s.resp.Header, s.lines.Text())
				}
				for _, want := range c.want {
					if got := s.say(); got != want {
						t.Errorf("%s: %s, want %s", s.resp.Proto, got, want)
					}
				}
				s.stop()
			}
		})
	}
}

// TestKubectlCreatesWithProtobuf sends what `kubectl create configmap` of 1.32 and
// newer sends: the protobuf envelope, with an answer in JSON accepted.
func TestKubectlCreatesWithProtobuf(t *testing.T) {
	d := openServer(t, nil)
	body := envelope(t, "v1", "ConfigMap", &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": "b"},
	})
	a := d.do("POST", configMaps+"?fieldManager=kubectl-create&fieldValidation=Strict", body,
		acceptProtobuf, "Content-Type: application/vnd.kubernetes.protobuf")
	if a.StatusCode != http.StatusCreated || at(tree(t, a.body), "data", "a") != "b" {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	options := envelope(t, "v1", "DeleteOptions", &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{ResourceVersion: new("1")},
	})
	a = d.do("DELETE", configMaps+"/x", options, acceptProtobuf, "Content-Type: application/vnd.kubernetes.protobuf")
	if a.StatusCode != http.StatusConflict ||
		!strings.Contains(a.body, "the ResourceVersion in the precondition (1) does not match") {
		t.Errorf("delete with a stale precondition: %d %s", a.StatusCode, a.body)
	}
	a = d.do("DELETE", configMaps+"/x", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, acceptJSON)
	if a.StatusCode != http.StatusOK || at(tree(t, a.body), "status") != "Success" {
		t.Errorf("delete: %d %s", a.StatusCode, a.body)
	}
}

// envelope encodes an object as clients send it.
func envelope(t testing.TB, apiVersion, kind string, object interface{ Marshal() ([]byte, error) }) string {
	t.Helper()
	raw, err := object.Marshal()
	if err != nil {
		t.Fatalf("marshal object: %v", err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	body, err := unknown.Marshal()
	if err != nil {
		t.Fatalf("marshal unknown: %v", err)
	}
	return string(append(bytes.Clone([]byte("k8s\x00")), body...))
}

func aggregatedType(v string) string {
	return "application/json;g=apidiscovery.k8s.io;v=" + v + ";as=APIGroupDiscoveryList"
}
