package client_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

const typeProtobuf = "application/vnd.kubernetes.protobuf"

// upstream encodes as API servers do: with their own serializers.
type upstream struct {
	info  runtime.SerializerInfo
	codec runtime.Encoder
}

func newUpstream(tb testing.TB) upstream {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), metav1.AddMetaToScheme(scheme)); err != nil {
		tb.Fatalf("add to the scheme: %v", err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	info, found := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), typeProtobuf)
	if !found {
		tb.Fatal("upstream has no protobuf")
	}
	return upstream{
		info: info,
		codec: codecs.EncoderForVersion(info.Serializer, schema.GroupVersions{
			corev1.SchemeGroupVersion, metav1.SchemeGroupVersion,
		}),
	}
}

// object is an object, a list or a Status in its envelope. Without a kind of its own
// it gets that of its type.
func (u upstream) object(tb testing.TB, o runtime.Object) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := u.codec.Encode(o, &b); err != nil {
		tb.Fatalf("encode: %v", err)
	}
	return b.Bytes()
}

// frame is an event of a watch. object is encoded already.
func (u upstream) frame(tb testing.TB, name string, object []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	encoder := u.info.StreamSerializer
	event := &metav1.WatchEvent{Type: name, Object: runtime.RawExtension{Raw: object}}
	if err := encoder.Encode(event, encoder.NewFrameWriter(&b)); err != nil {
		tb.Fatalf("encode: %v", err)
	}
	return b.Bytes()
}

func pod(n int) *corev1.Pod {
	var fields metav1.FieldsV1
	if err := fields.UnmarshalJSON([]byte(`{"f:a":{}}`)); err != nil {
		panic(err)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-%d", n), Namespace: "prod", UID: types.UID(fmt.Sprintf("u%d", n)),
			ResourceVersion: fmt.Sprint(1000 + n), Generation: 7,
			Labels:        map[string]string{"app": "web"},
			Annotations:   map[string]string{"a": strings.Repeat("y", n%400)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &fields}},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", n)},
	}
}

func podListOf(n int) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "77", Continue: "next"}}
	for k := range n {
		list.Items = append(list.Items, *pod(k))
	}
	return list
}

// marked is a bookmark; the one that ends the initial events if end.
func marked(rv string, end bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
	if end {
		p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return p
}

func answer(contentType string, body []byte) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", contentType)
		_, _ = rw.Write(body)
	}
}

// opened is the pod in an envelope.
func opened(t *testing.T, object []byte) *corev1.Pod {
	t.Helper()
	e, err := client.OpenEnvelope(object)
	if err != nil {
		t.Fatalf("open the envelope: %v", err)
	}
	p := &corev1.Pod{}
	if err := p.Unmarshal(e.Raw); err != nil {
		t.Fatalf("decode: %v", err)
	}
	return p
}

func TestProtobufListIsReadItemByItem(t *testing.T) {
	const n = 2000 // more than any buffer holds
	u := newUpstream(t)
	want := podListOf(n)
	var accepted string
	body := u.object(t, want)
	c := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		accepted = r.Header.Get("Accept")
		answer(typeProtobuf, body)(rw, r)
	}, false).As(client.Form{Protobuf: true})
	k := 0
	meta, err := c.ListLent(t.Context(), pods(""), metav1.ListOptions{}, func(item []byte) error {
		if !client.IsProtobuf(item) {
			t.Fatalf("item %d is %q", k, item)
		}
		if diff := cmp.Diff(&want.Items[k], opened(t, item)); diff != "" {
			t.Fatal(diff)
		}
		m, err := client.MetaOf(item)
		if w := want.Items[k]; err != nil ||
			m != (client.Meta{Namespace: w.Namespace, Name: w.Name, UID: w.UID, ResourceVersion: w.ResourceVersion}) {
			t.Fatalf("metadata %+v, %v", m, err)
		}
		k++
		return nil
	})
	if err != nil || k != n {
		t.Fatalf("%d items, %v", k, err)
	}
	if diff := cmp.Diff(want.ListMeta, meta); diff != "" {
		t.Error(diff)
	}
	if accepted != "application/vnd.kubernetes.protobuf, application/json" {
		t.Errorf("asked for %q", accepted)
	}
}

func TestProtobufListItemsMayBeKept(t *testing.T) {
	c := serve(t, answer(typeProtobuf, newUpstream(t).object(t, podListOf(300))), false).As(client.Form{Protobuf: true})
	var raw [][]byte
	if _, err := c.List(t.Context(), pods(""), metav1.ListOptions{}, func(item []byte) error {
		raw = append(raw, item)
		return nil
	}); err != nil {
		t.Fatalf("list: %v", err)
	}
	for k, item := range raw {
		if name := opened(t, item).Name; name != pod(k).Name {
			t.Fatalf("item %d is %s", k, name)
		}
	}
}

func TestJSONIsAcceptedFromServersWithoutProtobuf(t *testing.T) {
	c := serve(t, jsonAnswer(`{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`),
		false).As(client.Form{Protobuf: true})
	var items []string
	if _, err := c.List(t.Context(), pods(""), metav1.ListOptions{}, collect(&items)); err != nil || len(items) != 1 ||
		client.IsProtobuf([]byte(items[0])) {
		t.Fatalf("%q, %v", items, err)
	}
	w, err := serve(t, jsonAnswer(added), false).As(client.Form{Protobuf: true}).Watch(t.Context(), pods(""),
		metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	if f, err := w.Next(); err != nil || f.Type != kube.Added {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestUnrequestedProtobufIsRefused(t *testing.T) {
	c := serve(t, answer(typeProtobuf, newUpstream(t).object(t, podListOf(1))), false)
	_, err := c.List(t.Context(), pods(""), metav1.ListOptions{}, func([]byte) error { return nil })
	if kube.Classify(err) != kube.OutcomeDecode || errors.Is(err, client.ErrProtobuf) {
		t.Errorf("%v", err)
	}
}

// watchOf is the frames of a watch, one of them larger than the buffer.
func watchOf(tb testing.TB, u upstream, n int) (body []byte, large *corev1.Pod) {
	tb.Helper()
	large = pod(n)
	large.Annotations["large"] = strings.Repeat("x", 3<<20)
	var parts [][]byte
	for k := range n {
		parts = append(parts, u.frame(tb, "ADDED", u.object(tb, pod(k))))
	}
	parts = append(
		parts, u.frame(tb, "MODIFIED", u.object(tb, large)),
		u.frame(tb, "BOOKMARK", u.object(tb, marked("78", false))), u.frame(tb, "BOOKMARK", u.object(tb, marked("79", true))),
		u.frame(tb, "CHANGED", u.object(tb, pod(1))), u.frame(tb, "DELETED", u.object(tb, pod(2))),
		u.frame(tb, "BOOKMARK", []byte("k8s\x00\x0f")),
	)
	return bytes.Join(parts, nil), large
}

func TestProtobufWatchReturnsTheServersEvents(t *testing.T) {
	const n = 500
	u := newUpstream(t)
	body, large := watchOf(t, u, n)
	var zipped bytes.Buffer
	for part := range slices.Chunk(body, 10_000) { // members end anywhere
		z := gzip.NewWriter(&zipped)
		_, _ = z.Write(part)
		_ = z.Close()
	}
	for name, c := range map[string]struct {
		zipped bool
		lends  bool
	}{"copied": {}, "lent": {lends: true}, "zipped": {zipped: true, lends: true}} {
		t.Run(name, func(t *testing.T) {
			w, err := serve(t, func(rw http.ResponseWriter, r *http.Request) {
				if c.zipped {
					rw.Header().Set("Content-Encoding", "gzip")
					answer(typeProtobuf+";stream=watch", zipped.Bytes())(rw, r)
					return
				}
				answer(typeProtobuf+";stream=watch", body)(rw, r)
			}, false).As(client.Form{Protobuf: true}).Watch(t.Context(), pods(""), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("watch: %v", err)
			}
			defer closing(t, w)
			if c.lends {
				w.Lend()
			}
			frames := map[int]client.Frame{} // those that are kept: none may change
			next := func() client.Frame {
				f, err := w.Next()
				if err != nil {
					t.Fatalf("read the next: %v", err)
				}
				return f
			}
			for k := range n {
				f := next()
				if !c.lends {
					frames[k] = f
				} else if diff := cmp.Diff(pod(k), opened(t, f.Object)); f.Type != kube.Added || diff != "" {
					t.Fatalf("%v %s", f.Type, diff)
				}
			}
			for k, f := range frames {
				if diff := cmp.Diff(pod(k), opened(t, f.Object)); f.Type != kube.Added || diff != "" {
					t.Fatalf("%v %s", f.Type, diff)
				}
			}
			if f := next(); f.Type != kube.Modified || !cmp.Equal(large, opened(t, f.Object)) {
				t.Fatalf("%v %.200q", f.Type, f.Object)
			}
			for _, want := range []struct {
				kind kube.EventType
				rv   string
			}{{kube.Bookmark, "78"}, {kube.InitialEventsEnd, "79"}} {
				f := next()
				m, err := f.Meta()
				if f.Type != want.kind || m.ResourceVersion != want.rv || err != nil {
					t.Fatalf("%v at %+v, %v", f.Type, m, err)
				}
			}
			if f := next(); f.Type != 0 || !strings.HasPrefix(string(f.Object), `{"type":"CHANGED"`) {
				t.Fatalf("%v %q", f.Type, f.Object)
			}
			if f := next(); f.Type != kube.Deleted || opened(t, f.Object).Name != "web-2" {
				t.Fatalf("%v %q", f.Type, f.Object)
			}
			if f := next(); f.Type != 0 {
				t.Fatalf("a bookmark that is broken: %v %q", f.Type, f.Object)
			}
			if f, err := w.Next(); !errors.Is(err, io.EOF) {
				t.Fatalf("%+v, %v", f, err)
			}
		})
	}
}

func TestProtobufErrorsCarryTheServersStatus(t *testing.T) {
	u := newUpstream(t)
	gone := apierrors.NewResourceExpired("too old resource version: 1 (2)")
	gone.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 3}
	status := u.object(t, &gone.ErrStatus)
	asked := func(h http.HandlerFunc) *client.Client { return serve(t, h, false).As(client.Form{Protobuf: true}) }
	check := func(t *testing.T, err error) {
		t.Helper()
		wait, _ := kube.RetryDelay(err)
		if kube.Classify(err) != kube.OutcomeExpired || wait.Seconds() != 3 ||
			!strings.Contains(err.Error(), "too old resource version: 1 (2)") {
			t.Errorf("%v, retry after %v", err, wait)
		}
	}
	t.Run("in the stream", func(t *testing.T) {
		w, err := asked(answer(typeProtobuf, u.frame(t, "ERROR", status))).Watch(t.Context(), pods(""), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		defer closing(t, w)
		_, err = w.Next()
		check(t, err)
	})
	refused := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", typeProtobuf)
		rw.WriteHeader(http.StatusGone)
		_, _ = rw.Write(status)
	}
	t.Run("as the answer", func(t *testing.T) {
		_, err := asked(refused).Watch(t.Context(), pods(""), metav1.ListOptions{})
		check(t, err)
		_, err = asked(refused).List(t.Context(), pods(""), metav1.ListOptions{}, nil)
		check(t, err)
	})
	t.Run("that is no Status", func(t *testing.T) {
		w, err := asked(answer(typeProtobuf, u.frame(t, "ERROR", u.object(t, pod(1))))).Watch(t.Context(), pods(""),
			metav1.ListOptions{})
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		defer closing(t, w)
		if _, err = w.Next(); kube.Classify(err) != kube.OutcomeServerError {
			t.Errorf("%v", err)
		}
	})
}

func TestProtobufReadyReportsABufferedFrame(t *testing.T) {
	u := newUpstream(t)
	frame := u.frame(t, "ADDED", u.object(t, pod(1)))
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/y", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	w := client.ReadWatch(&http.Response{Body: in, Request: req, Header: http.Header{"Content-Type": {typeProtobuf}}})
	defer closing(t, w)
	w.Lend()
	go func() { // ends with the last write, which Next reads
		_, _ = out.Write(slices.Concat(frame, frame, frame[:len(frame)-1]))
		_, _ = out.Write(frame[len(frame)-1:])
		_ = out.Close()
	}()
	for _, ready := range []bool{true, false, false} {
		if _, err := w.Next(); err != nil || w.Ready() != ready {
			t.Fatalf("ready: %t, %v", w.Ready(), err)
		}
	}
	if _, err := w.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestMetadataOnlyIsRequestedAndChecked(t *testing.T) {
	u := newUpstream(t)
	item := metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: pod(1).ObjectMeta,
	}
	list := &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
		Items:    []metav1.PartialObjectMetadata{item},
	}
	partial := u.object(t, &item)
	for name, c := range map[string]struct {
		form        client.Form
		list, watch http.HandlerFunc
		is          bool
	}{
		"protobuf": {
			client.Form{Protobuf: true, Metadata: true},
			answer(typeProtobuf, u.object(t, list)),
			answer(typeProtobuf, u.frame(t, "ADDED", partial)), true,
		},
		"JSON": {
			client.Form{Metadata: true},
			jsonAnswer(`{"kind":"PartialObjectMetadataList","metadata":{},"items":[{"a":1}]}`),
			jsonAnswer(`{"type":"ADDED","object":{"x":[{"kind":"Pod"}],"kind":"PartialObjectMetadata"}}`), true,
		},
		"protobuf, whole": {
			client.Form{Protobuf: true, Metadata: true},
			answer(typeProtobuf, u.object(t, podListOf(1))),
			answer(typeProtobuf, u.frame(t, "ADDED", u.object(t, pod(1)))), false,
		},
		"JSON, whole": {
			client.Form{Metadata: true},
			jsonAnswer(`{"kind":"PodList","metadata":{},"items":[{"a":1}]}`),
			jsonAnswer(`{"type":"ADDED","object":{"kind":"Pod"}}`), false,
		},
		"JSON without kind": {
			client.Form{Metadata: true},
			jsonAnswer(`{"items":[{"a":1}]}`), jsonAnswer(`{"type":"ADDED","object":{"x":1}}`),
			false,
		},
		"no object": {
			client.Form{Metadata: true},
			jsonAnswer(`{"items":[],"kind":"PodList"}`), jsonAnswer(`{"type":"ADDED","object":7}`),
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var accepted []string
			asked := func(h http.HandlerFunc) *client.Client {
				return serve(t, func(rw http.ResponseWriter, r *http.Request) {
					accepted = append(accepted, r.Header.Get("Accept"))
					h(rw, r)
				}, false).As(c.form)
			}
			_, err := asked(c.list).List(t.Context(), pods(""), metav1.ListOptions{}, func([]byte) error { return nil })
			if is := err == nil; is != c.is || !is && kube.Classify(err) != kube.OutcomeDecode {
				t.Errorf("list: %v", err)
			}
			w, err := asked(c.watch).Watch(t.Context(), pods(""), metav1.ListOptions{})
			if err != nil {
				t.Fatalf("watch: %v", err)
			}
			defer closing(t, w)
			_, err = w.Next()
			if is := err == nil; is != c.is || !is && kube.Classify(err) != kube.OutcomeDecode {
				t.Errorf("watch: %v", err)
			}
			json := "application/json;as=PartialObjectMetadata%s;g=meta.k8s.io;v=v1"
			want := []string{fmt.Sprintf(json, "List"), fmt.Sprintf(json, "")}
			if c.form.Protobuf {
				protobuf := strings.Replace(json, "application/json", typeProtobuf, 1)
				want = []string{fmt.Sprintf(protobuf, "List") + ", " + want[0], fmt.Sprintf(protobuf, "") + ", " + want[1]}
			}
			if diff := cmp.Diff(want, accepted); diff != "" {
				t.Error(diff)
			}
		})
	}
}
