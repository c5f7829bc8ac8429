package informer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const inProtobuf = "application/vnd.kubernetes.protobuf"

// podServer serves pods as an API server does, with upstream's own serializers.
type podServer struct {
	// has says what the server makes of a request for protobuf: "" is protobuf.
	has string // "406", "json", "broken lists", "broken frames", "broken pods"
	// metadata says that it knows how to send metadata only.
	metadata bool

	codecs serializer.CodecFactory
	events chan watch.Event // for the watch that is open

	// mu guards what follows.
	mu    sync.Mutex
	pods  []*corev1.Pod
	rv    int
	asked []string
}

func newPodServer(tb testing.TB, n int) *podServer {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), metav1.AddMetaToScheme(scheme)); err != nil {
		tb.Fatal(err)
	}
	s := &podServer{codecs: serializer.NewCodecFactory(scheme), events: make(chan watch.Event), rv: 100}
	for k := range n {
		s.pods = append(s.pods, decodedPod(tb, k, 50))
	}
	return s
}

func decodedPod(tb testing.TB, n, rv int) *corev1.Pod {
	tb.Helper()
	p := &corev1.Pod{}
	if err := json.Unmarshal([]byte(realisticPod(n, rv)), p); err != nil {
		tb.Fatal(err)
	}
	p.TypeMeta = metav1.TypeMeta{}
	return p
}

func (s *podServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *podServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	form := "json"
	if strings.HasPrefix(r.Header.Get("Accept"), inProtobuf) {
		form = "protobuf"
	}
	verb := "LIST"
	if r.URL.Query().Get("watch") != "" {
		verb = "WATCH"
	}
	s.mu.Lock()
	s.asked = append(s.asked, verb+" "+form)
	pods, rv := slices.Clone(s.pods), fmt.Sprint(s.rv)
	s.mu.Unlock()
	media := runtime.ContentTypeJSON
	if form == "protobuf" && s.has != "json" {
		media = inProtobuf
	}
	if form == "protobuf" && s.has == "406" {
		rw.WriteHeader(http.StatusNotAcceptable)
		return
	}
	info, _ := runtime.SerializerInfoForMediaType(s.codecs.SupportedMediaTypes(), media)
	rw.Header().Set("Content-Type", media)
	broken := media == inProtobuf && s.has == "broken "+map[string]string{"LIST": "lists", "WATCH": "frames"}[verb]
	if broken {
		_, _ = io.WriteString(rw, "there is no such page as you ask for")
		return
	}
	a := podAnswer{podServer: s, info: info, rw: rw, partial: s.metadata && strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	if verb == "LIST" {
		a.list(pods, rv)
		return
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for _, p := range pods {
			a.event(watch.Added, p)
		}
		a.event(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	}
	_ = http.NewResponseController(rw).Flush()
	for {
		select {
		case e := <-s.events:
			a.event(e.Type, e.Object)
			if e.Type == watch.Error {
				return
			}
			_ = http.NewResponseController(rw).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// podAnswer writes one answer.
type podAnswer struct {
	*podServer
	info    runtime.SerializerInfo
	rw      http.ResponseWriter
	partial bool
}

// encoded is an object as the server would send it alone.
func (a podAnswer) encoded(o runtime.Object) []byte {
	var b bytes.Buffer
	if p, is := o.(*corev1.Pod); is && a.partial {
		o = partialOf(p)
	}
	if err := a.codecs.EncoderForVersion(a.info.Serializer, schema.GroupVersions{corev1.SchemeGroupVersion, metav1.SchemeGroupVersion}).Encode(o, &b); err != nil {
		panic(err)
	}
	if p, is := o.(*corev1.Pod); is && p.Name != "" && a.info.MediaType == inProtobuf && a.has == "broken pods" {
		return []byte("k8s\x00\x12\x02\x08\x01")
	}
	return b.Bytes()
}

func partialOf(p *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: p.ObjectMeta}
}

func (a podAnswer) list(pods []*corev1.Pod, rv string) {
	if a.partial {
		list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: rv}}
		for _, p := range pods {
			list.Items = append(list.Items, *partialOf(p))
		}
		_, _ = a.rw.Write(a.encoded(list))
		return
	}
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: rv}}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	_, _ = a.rw.Write(a.encoded(list))
}

func (a podAnswer) event(kind watch.EventType, o runtime.Object) {
	event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: a.encoded(o)}}
	stream := a.info.StreamSerializer
	if err := stream.Encode(event, stream.NewFrameWriter(a.rw)); err != nil {
		return // the client is gone
	}
}

// inMemory is a configuration that reaches a handler without a socket, so that it can
// be used in virtual time.
func inMemory(h http.Handler) *rest.Config {
	return &rest.Config{Host: "http://memory", Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		in, out := io.Pipe()
		ctx, cancel := context.WithCancel(r.Context())
		w := &memoryWriter{header: http.Header{}, body: out, begun: make(chan int, 1)}
		context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
		// It ends with the handler, which ends with the request.
		go func() {
			h.ServeHTTP(w, r.WithContext(ctx))
			w.WriteHeader(http.StatusOK)
			_ = out.Close() // a pipe has no error to tell
		}()
		code := <-w.begun
		return &http.Response{
			StatusCode: code, Header: w.header, Request: r, ContentLength: -1,
			Body: memoryBody{in, cancel},
		}, nil
	})}
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type memoryBody struct {
	*io.PipeReader
	cancel func()
}

func (b memoryBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

type memoryWriter struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan int
	code   int
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
		w.begun <- code
	}
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// FlushError begins the answer.
func (w *memoryWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}
