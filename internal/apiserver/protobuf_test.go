package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// plain is an answer without compression.
func (a answer) plain(t testing.TB) []byte {
	t.Helper()
	if a.Header.Get("Content-Encoding") != "gzip" {
		return []byte(a.body)
	}
	z, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatalf("make a reader: %v", err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("read to the end: %v", err)
	}
	return body
}

// fillMaps creates n config maps of some sizes.
func (d *testServer) fillMaps(n int) {
	d.t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		body := fmt.Sprintf(
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-%03d","labels":{"odd":"%d"}},"data":{"a":%q}}`,
			i, i%2, strings.Repeat("x", random.IntN(2000)))
		if a := d.do("POST", configMaps, body); a.StatusCode != http.StatusCreated {
			d.t.Fatalf("create: %s", a.body)
		}
	}
}

// TestProtobufListsAreThoseInJSON reads every kind of list in both encodings, the first
// time, from the cache, and after a change.
func TestProtobufListsAreThoseInJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	d := openServer(t, nil)
	d.fillMaps(300)
	queries := []string{
		"", "?limit=7", "?limit=100", "?labelSelector=odd%3D1", "?fieldSelector=metadata.name%3Dcm-007", "?resourceVersion=0",
		"?labelSelector=none",
	}
	check := func(t *testing.T) {
		t.Helper()
		for _, query := range queries {
			want := tree(t, d.do("GET", configMaps+query, "").body)
			if items, _ := want["items"].([]any); len(items) == 0 {
				want["items"] = nil // as it is decoded
			}
			for _, encoding := range []string{"", "Accept-Encoding: gzip"} {
				for range 2 {
					a := d.do("GET", configMaps+query, "", protobufAccepted, encoding)
					body := a.plain(t)
					if diff := cmp.Diff(want, envelopeTree(t, body)); diff != "" || a.StatusCode != http.StatusOK ||
						a.Header.Get("Content-Type") != protobufType {
						t.Fatalf("%s %s: %d %v %s", query, encoding, a.StatusCode, a.Header, diff)
					}
					if zipped, large := a.Header.Get("Content-Encoding") == "gzip", len(
						body) > 200<<10; zipped != (large && encoding != "") && len(body) > 100<<10 == large {
						t.Errorf("%s %s: compressed: %t, of %d bytes", query, encoding, zipped, len(body))
					}
				}
			}
		}
	}
	check(t)
	if a := d.do("PATCH",
		configMaps+"/cm-100", `{"data":{"b":"c"}}`, "Content-Type: application/merge-patch+json"); a.StatusCode != http.StatusOK {
		t.Fatal(a.body)
	}
	d.do("DELETE", configMaps+"/cm-200", "")
	check(t)
}

// The bytes are those of upstream's encoder.
func TestProtobufListIsEncodedAsUpstream(t *testing.T) {
	d := openServer(t, nil)
	d.fillMaps(20)
	for _, query := range []string{"", "?limit=3"} {
		body := []byte(d.do("GET", configMaps+query, "", protobufAccepted).body)
		o, err := openEnvelope(body)
		if err != nil {
			t.Fatalf("open the envelope: %v", err)
		}
		want, err := runtime.Encode(protobuf.NewSerializer(nil, nil), o)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		if !bytes.Equal(want, body) {
			t.Errorf("%s: other bytes than upstream's: %q, want %q", query, body, want)
		}
	}
}

func TestProtobufListsOfViewsAndMetadata(t *testing.T) {
	const (
		v1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
		v2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	)
	d := openServer(t, nil)
	for _, name := range []string{"a", "b"} {
		body := `{"metadata":{"name":"` + name +
			`"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3}}`
		if a := d.do("POST",
			v1, body, protobufAccepted); a.StatusCode != http.StatusCreated ||
			at(tree(t, a.body), "apiVersion") != "autoscaling/v1" {
			t.Fatalf("%d %q", a.StatusCode, a.body)
		}
	}
	for range 2 {
		for _, path := range []string{v1, v2, v1 + "/a", v2 + "/a"} {
			want := tree(t, d.do("GET", path, "").body)
			if diff := cmp.Diff(want, tree(t, d.do("GET", path, "", protobufAccepted).body)); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
		}
		list := d.do("GET", v1, "", protobufAccepted+partialsParams)
		if o, err := openEnvelope([]byte(list.body)); err != nil {
			t.Errorf("open the envelope: %v", err)
		} else if got := envelopeTree(t, []byte(list.body)); got["kind"] != "PartialObjectMetadataList" ||
			len(got["items"].([]any)) != 2 {
			t.Errorf("%v %v", o, got)
		}
	}
	for path, want := range map[string]string{v1: "autoscaling/v1", v2: "autoscaling/v2"} {
		s := d.open(d.h1, path+"?watch=1&resourceVersion=0", protobufAccepted)
		first := s.next()
		if v := at(first, "object", "apiVersion"); v != want || at(first, "object", "spec", "maxReplicas") != float64(3) {
			t.Errorf("%s: %v", path, first)
		}
		s.next()
		d.do("PATCH",
			v2+"/a", `{"spec":{"maxReplicas":`+fmt.Sprint(4+len(path)%2)+`}}`, "Content-Type: application/merge-patch+json")
		if e := s.next(); at(e, "object", "apiVersion") != want || e["type"] != "MODIFIED" {
			t.Errorf("%s: %v", path, e)
		}
		s.stop()
		d.do("PATCH", v2+"/a", `{"spec":{"maxReplicas":3}}`, "Content-Type: application/merge-patch+json")
	}
}

// sameEvents fails unless a watch in protobuf has the same events as one in JSON.
func sameEvents(t *testing.T, n int, text, binary *stream) {
	t.Helper()
	for range n {
		if diff := cmp.Diff(shown(text.next()), shown(binary.next())); diff != "" {
			t.Fatalf("another event in protobuf (-JSON +protobuf):\n%s", diff)
		}
	}
}

// shown is an event without members that are only in one of the encodings: the empty ones.
func shown(e map[string]any) map[string]any {
	metadata, _ := at(e, "object", "metadata").(map[string]any)
	maps.DeleteFunc(metadata, func(_ string, v any) bool { return v == nil })
	return e
}

func TestProtobufWatchesAreThoseInJSON(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", `"x":"y"`)
	for _, client := range []*http.Client{d.h1, d.h2} {
		for _, params := range []string{"", ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
			const query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=x%3Dy"
			open := func(accept string) *stream {
				return d.open(client, configMaps+"?watch=1"+query, "Accept: "+accept+params)
			}
			text, binary, another := open("application/json"), open(protobufType), open(protobufType)
			sameEvents(t, 2, text, binary) // the state and its end
			d.create("b", `"x":"y"`)
			d.do("PATCH", configMaps+"/b", `{"data":{"z":"1"}}`, "Content-Type: application/merge-patch+json")
			// leaves
			d.do("PATCH", configMaps+"/b", `{"metadata":{"labels":{"x":"z"}}}`, "Content-Type: application/merge-patch+json")
			d.do("PATCH", configMaps+"/b", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type: application/merge-patch+json")
			d.do("DELETE", configMaps+"/b", "")
			sameEvents(t, 5, text, binary)
			for range 7 {
				another.next()
			}
			text.stop()
			binary.stop()
			another.stop()
		}
	}
}

func TestProtobufWatchOfExpiredHistoryIsAnErrorFrame(t *testing.T) {
	d := openServer(t, func(c *apiserver.Config) {
		c.Reader = &reader{Reader: c.Reader, watch: func(context.Context, wire.ListOptions) (wire.Watch, error) {
			return nil, &kube.ExpiredError{Requested: 1, Oldest: 2, Kind: kube.ExpiredWatch}
		}}
	})
	s := d.open(d.h2, configMaps+"?watch=1&resourceVersion=1", protobufAccepted)
	if e := s.next(); e["type"] != "ERROR" || at(e, "object", "kind") != "Status" || at(e, "object", "reason") != "Expired" {
		t.Errorf("got %v", e)
	}
	if rest, err := io.ReadAll(s.resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("after the error: %q, %v", rest, err)
	}
}

func TestErrorsAreInTheClientsEncoding(t *testing.T) {
	d := openServer(t, nil)
	d.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	const foos = "/apis/t.example.com/v1/namespaces/default/foos"
	for _, c := range []struct {
		method, path, accept, media string
		code                        int
	}{
		{"GET", configMaps + "/none", protobufType, protobufType, 404},
		{"GET", configMaps + "/none", protobufType + ",application/json", protobufType, 404},
		{"GET", configMaps + "/none", protobufType + partialParams, "application/json", 404},
		{"GET", configMaps + "/none", "application/json;as=Table;g=meta.k8s.io;v=v1," + protobufType, protobufType, 404},
		{"GET", configMaps + "?limit=x", protobufType, protobufType, 400},
		{"GET", configMaps + "?watch=1&resourceVersion=x", protobufType + ";stream=watch", protobufType, 400},
		{"DELETE", configMaps + "/none", protobufType, protobufType, 404},
		{"GET", "/apis/none.example.com/v1/foos", protobufType, protobufType, 404},
		{"GET", foos + "/none", protobufType, protobufType, 406},
		{"GET", foos, protobufType, protobufType, 406},
		{"GET", foos + "?watch=1", protobufType, protobufType, 406},
		{"GET", foos, protobufType + ",application/json", "application/json", 200},
		{"GET", foos, protobufType + partialsParams, protobufType, 200},
		{"GET", configMaps + "/none", "text/html", "application/json", 406},
	} {
		a := d.do(c.method, c.path, "", "Accept: "+c.accept)
		if a.StatusCode != c.code || a.Header.Get("Content-Type") != c.media {
			t.Errorf("%s %s for %s: %d %v %q", c.method, c.path, c.accept, a.StatusCode, a.Header, a.body)
			continue
		}
		if got := tree(t,
			a.body); c.code >= 400 && (got["kind"] != "Status" || got["code"] != float64(c.code) || got["message"] == "") {
			t.Errorf("%s %s for %s: %v", c.method, c.path, c.accept, got)
		}
	}
}

// TestWritesAreAnsweredInProtobuf sends what client-go's typed clients send.
func TestWritesAreAnsweredInProtobuf(t *testing.T) {
	const (
		media       = "Content-Type: " + protobufType
		merge       = "Content-Type: application/merge-patch+json"
		deployments = "/apis/apps/v1/namespaces/default/deployments"
	)
	d := openServer(t, nil)
	cm := &corev1.ConfigMap{Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": {0, 1}}}
	cm.Name = "x"
	a := d.do("POST", configMaps, inProtobuf(t, cm), media, protobufAccepted)
	if got := tree(t, a.body); a.StatusCode != http.StatusCreated || at(got, "data", "a") != "b" ||
		at(got, "binaryData", "c") != "AAE=" || at(got, "metadata", "uid") == nil {
		t.Fatalf("%d %v", a.StatusCode, got)
	}
	a = d.do("PATCH", configMaps+"/x", `{"data":{"a":"c"}}`, merge, protobufAccepted)
	if got := tree(t, a.body); at(got, "data", "a") != "c" || got["kind"] != "ConfigMap" {
		t.Errorf("%d %v", a.StatusCode, got)
	}
	a = d.do("DELETE", configMaps, "", protobufAccepted)
	if got := tree(t, a.body); got["kind"] != "ConfigMapList" || len(got["items"].([]any)) != 1 {
		t.Errorf("%d %v", a.StatusCode, got)
	}
	d.create("x", "")
	a = d.do("DELETE", configMaps+"/x", "", protobufAccepted)
	if got := tree(t, a.body); got["kind"] != "Status" || got["status"] != "Success" {
		t.Errorf("%d %v", a.StatusCode, got)
	}
	d.do("POST", deployments,
		`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	a = d.do("GET", deployments+"/d/scale", "", protobufAccepted)
	o, err := openEnvelope([]byte(a.body))
	if scale, is := o.(*autoscalingv1.Scale); !is || scale.Spec.Replicas != 1 || scale.Status.Selector != "a=b" {
		t.Errorf("%v %v %q", o, err, a.body)
	}
	a = d.do("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{}`, protobufAccepted)
	if got := tree(t, a.body); got["kind"] != "SelfSubjectReview" || at(got, "status", "userInfo", "username") == nil {
		t.Errorf("%d %v", a.StatusCode, got)
	}
}

// A WebSocket says how long each message is.
func TestWebSocketWatchInProtobuf(t *testing.T) {
	d := openServer(t, nil)
	rv := rvOf(t, d.do("GET", configMaps, "").body)
	_, from := d.raw("GET "+configMaps+"?resourceVersion="+rv+"&watch=true HTTP/1.1", fabric8+"Accept: "+protobufType+"\r\n")
	if resp := answerOf(t, from); resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	d.create("a", "")
	const binaryFrame = 0x82
	first, got := message(t, from)
	if e := eventTree(t, []byte(got)); first != binaryFrame || e["type"] != "ADDED" ||
		at(e, "object", "metadata", "name") != "a" {
		t.Errorf("%x %v", first, e)
	}
}
