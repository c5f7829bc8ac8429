package informer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// podServer is a server of realistic pods, in JSON and protobuf. The value of a pod is its
// number.
type podServer struct{ *listwatchtest.Server }

func newPodServer(tb testing.TB, n int) podServer {
	tb.Helper()
	s := podServer{listwatchtest.New()}
	s.Scheme, s.Kind = runtime.NewScheme(), "Pod"
	if err := errors.Join(corev1.AddToScheme(s.Scheme), metav1.AddMetaToScheme(s.Scheme)); err != nil {
		tb.Fatalf("add to the scheme: %v", err)
	}
	metav1.AddToGroupVersion(s.Scheme, corev1.SchemeGroupVersion)
	s.Render = func(v listwatchtest.Version) []byte { return []byte(realisticPod(v.Value.(int), v.RV)) }
	for k := range n {
		s.put(tb, k)
	}
	return s
}

// put writes a pod.
func (s podServer) put(tb testing.TB, n int) { s.PutKey(podKey(tb, n), n) }

func podKey(tb testing.TB, n int) informer.Key {
	tb.Helper()
	p := decodedPod(tb, []byte(realisticPod(n, 1)))
	return informer.Key{Namespace: p.Namespace, Name: p.Name}
}

func decodedPod(tb testing.TB, raw []byte) *corev1.Pod {
	tb.Helper()
	p := &corev1.Pod{}
	if err := json.Unmarshal(raw, p); err != nil {
		tb.Fatalf("decode JSON: %v", err)
	}
	p.TypeMeta = metav1.TypeMeta{}
	return p
}

// pod returns the server's object with a key.
func (s podServer) pod(tb testing.TB, key informer.Key) *corev1.Pod {
	tb.Helper()
	for _, v := range s.Objects() {
		if v.Key == key {
			return decodedPod(tb, v.Raw)
		}
	}
	tb.Fatalf("there is no pod %s", key)
	return nil
}

// seen returns the verbs of all requests and the encodings that they accepted.
func (s podServer) seen() []string {
	var all []string
	for _, r := range s.Requests() {
		verb, encoding := "LIST", "json"
		if r.Watch {
			verb = "WATCH"
		}
		if r.Protobuf {
			encoding = "protobuf"
		}
		all = append(all, verb+" "+encoding)
	}
	return all
}

// without is a rule for a server without working protobuf: it answers with 406, with JSON
// or with invalid protobuf.
func without(protobuf string) func(request) fault {
	return func(r request) fault {
		if !r.Protobuf {
			return fault{}
		}
		broken := fault{Raw: "there is no such page as you ask for"}
		switch {
		case protobuf == "406":
			return fault{Status: 406}
		case protobuf == "json":
			return fault{JSON: true}
		case protobuf == "broken pods":
			return fault{BadProtobuf: true}
		case protobuf == "broken lists" && !r.Watch, protobuf == "broken frames" && r.Watch:
			return broken
		}
		return fault{}
	}
}

// canned is a server that answers LIST and WATCH with given bytes. watch is nil for a
// silent watch.
func canned(list []byte, watch io.Reader) informer.Backend {
	s := listwatchtest.Script{
		OnList: func(_ context.Context, _ request, each func([]byte) error) (metav1.ListMeta, error) {
			return client.DecodeList(bytes.NewReader(list), each)
		},
	}
	if watch != nil {
		s.Body = func() io.Reader { return watch }
	}
	return backend(s)
}

func cannedPods(n int) informer.Backend { return canned(podList(n), nil) }

func podList(n int) []byte {
	items := make([]string, n)
	for k := range n {
		items[k] = realisticPod(k, 50)
	}
	return []byte(`{"kind":"PodList","metadata":{"resourceVersion":"100"},"items":[` + strings.Join(items, ",") + `]}`)
}
