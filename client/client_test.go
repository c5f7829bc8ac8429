package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// serve starts a server and a client of it; h2 over TLS if secure.
func serve(t testing.TB, h http.HandlerFunc, secure bool) *client.Client {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	cfg := &rest.Config{}
	if secure {
		srv.EnableHTTP2 = true
		srv.StartTLS()
		cfg.Insecure = true
	} else {
		srv.Start()
	}
	cfg.Host = srv.URL + "/prefix"
	c, err := client.New(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(func() {
		c.CloseIdle()
		srv.CloseClientConnections()
		srv.Close()
	})
	return c
}

func closing(t *testing.T, w *client.Watch) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func pods(ns string) client.Collection {
	return client.Collection{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: ns}
}

func jsonAnswer(body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, body)
	}
}

func collect(into *[]string) func([]byte) error {
	return func(item []byte) error {
		*into = append(*into, string(item))
		return nil
	}
}

func TestListReadsItemsInAnyOrderOfMembers(t *testing.T) {
	for name, body := range map[string]string{
		"typed": `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next"},` +
			`"items":[{"a":1},{"b": [2]}]}`,
		"unstructured": "{\n \"apiVersion\": \"v1\",\n \"items\": [ {\"a\":1} , {\"b\": [2]} ],\n \"kind\": \"PodList\", " +
			"\"metadata\": {\"continue\":\"next\",\"resourceVersion\":\"7\"}}\n",
		"more members": `{"x":{"items":[9]},"items":[{"a":1},{"b": [2]}],"metadata":{"resourceVersion":"7",` +
			`"continue":"next","y":[1]},"z":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, jsonAnswer(body), false)
			var items []string
			meta, err := c.List(t.Context(), pods(""), metav1.ListOptions{}, collect(&items))
			if err != nil || meta.ResourceVersion != "7" || meta.Continue != "next" {
				t.Fatalf("%+v, %v", meta, err)
			}
			if diff := cmp.Diff([]string{`{"a":1}`, `{"b": [2]}`}, items); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Lists of built-in kinds have items without kind and apiVersion.
func TestItemsOfATypedListHaveKindAndAPIVersion(t *testing.T) {
	const list = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}},{},{ "kind":"Special",` +
		`"apiVersion":"x/v1","b":1}]}`
	for form, want := range map[client.Form][]string{
		{}: {`{"metadata":{"name":"a"}}`, `{}`, `{ "kind":"Special","apiVersion":"x/v1","b":1}`},
		{Typed: true}: {
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, `{"apiVersion":"v1","kind":"Pod"}`,
			`{ "kind":"Special","apiVersion":"x/v1","b":1}`,
		},
	} {
		var items []string
		if _, err := serve(t, jsonAnswer(list), false).As(form).List(t.Context(), pods(""), metav1.ListOptions{},
			collect(&items)); err != nil {
			t.Fatalf("list: %v", err)
		}
		if diff := cmp.Diff(want, items); diff != "" {
			t.Errorf("%+v: %s", form, diff)
		}
	}
}

func TestListItemsMayBeKept(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"metadata":{"resourceVersion":"7"},"items":[`)
	for n := range 3000 {
		if n > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"n":%d,"fill":%q}`, n, strings.Repeat("x", 50))
	}
	b.WriteString(`]}`)
	var items []string
	var raw [][]byte
	_, err := client.DecodeList(strings.NewReader(b.String()), func(item []byte) error {
		raw, items = append(raw, item), append(items, string(item))
		return nil
	})
	if err != nil || len(raw) != 3000 {
		t.Fatal(len(raw), err)
	}
	for n := range raw {
		if string(raw[n]) != items[n] {
			t.Fatalf("item %d changed afterwards", n)
		}
	}
}

func TestAnswerThatIsNoListIsRefused(t *testing.T) {
	for body, want := range map[string]kube.Outcome{
		``:                             kube.OutcomeDisconnected,
		`{"items":[{"a":1},`:           kube.OutcomeDisconnected,
		`{"items":[{"a":1}]`:           kube.OutcomeDisconnected,
		`{"items":[{"a":1]}`:           kube.OutcomeDecode,
		`{"items":{}}`:                 kube.OutcomeDecode,
		`{"items":7}`:                  kube.OutcomeDecode,
		`[]`:                           kube.OutcomeDecode,
		`<html>`:                       kube.OutcomeDecode,
		`{"kind":"PodList"}`:           kube.OutcomeDecode,
		`{"kind":"Table","rows":[]}`:   kube.OutcomeDecode,
		`{"items":[],"metadata":7}`:    kube.OutcomeDecode,
		`{"items":[]} {"items":[]}`:    kube.OutcomeDecode,
		`{"items":[],"items":null}`:    kube.OutcomeOK,
		`{"items":null,"metadata":{}}`: kube.OutcomeOK,
	} {
		_, err := client.DecodeList(strings.NewReader(body), func([]byte) error { return nil })
		if got := kube.Classify(err); got != want {
			t.Errorf("%s: %v (%v), want %v", body, got, err, want)
		}
	}
}

func TestListStopsAtAnErrorOfTheCallback(t *testing.T) {
	enough := errors.New("enough")
	n := 0
	_, err := client.DecodeList(strings.NewReader(`{"items":[1,2,3]}`), func([]byte) error { n++; return enough })
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%d items, %v", n, err)
	}
}

func TestOptionsAreSentAsQueryParameters(t *testing.T) {
	got := make(chan string, 2)
	c := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		got <- r.URL.EscapedPath() + "?" + r.URL.RawQuery
		jsonAnswer(`{"items":[]}`)(rw, r)
	}, false)
	seconds, yes := int64(30), true
	_, err := c.List(t.Context(), pods("a b"), metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "metadata.name=x", ResourceVersion: "7", Limit: 5, Continue: "tok",
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}, collect(new([]string)))
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	want := "/prefix/api/v1/namespaces/a%20b/pods?continue=tok&fieldSelector=metadata.name%3Dx&labelSelector=a%3Db" +
		"&limit=5&resourceVersion=7&resourceVersionMatch=NotOlderThan"
	if s := <-got; s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	w, err := c.Watch(t.Context(),
		client.Collection{
			GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		},
		metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: &yes, TimeoutSeconds: &seconds})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	closing(t, w)
	want = "/prefix/apis/apps/v1/deployments?allowWatchBookmarks=true&sendInitialEvents=true&timeoutSeconds=30&watch=true"
	if s := <-got; s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

const (
	added    = `{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"d","uid":"u","resourceVersion":"5"}}}`
	bookmark = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`
	ending   = `{"object":{"metadata":{"resourceVersion":"9",` +
		`"annotations":{"k8s.io/initial-events-end":"true"}}},"type":"BOOKMARK"}`
	gone = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too ` +
		`old resource version: 1 (4)","reason":"Expired","code":410}}`
)

// read returns the types of all frames, and how the stream ended.
func read(w *client.Watch) (types []string, err error) {
	for {
		f, err := w.Next()
		if err != nil {
			return types, err
		}
		name := f.Type.String()
		if f.Type == kube.InitialEventsEnd {
			name = "END"
		}
		types = append(types, name)
	}
}

func TestWatchReadsValuesNotLines(t *testing.T) {
	for name, body := range map[string]string{
		"lines":      added + "\n" + bookmark + "\n" + ending + "\n",
		"no lines":   added + bookmark + ending,
		"indented":   strings.ReplaceAll(added+bookmark+ending, ":{", ":\n  {\n"),
		"more space": "\n\n" + added + "\r\n\r\n \t" + bookmark + "\n\n" + ending + "\n\n",
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s secure=%v", name, secure), func(t *testing.T) {
				c := serve(t, func(rw http.ResponseWriter, r *http.Request) {
					if (r.ProtoMajor == 2) != secure {
						t.Errorf("HTTP/%d", r.ProtoMajor)
					}
					jsonAnswer(body)(rw, r)
				}, secure)
				w, err := c.Watch(t.Context(), pods(""), metav1.ListOptions{})
				if err != nil {
					t.Fatalf("watch: %v", err)
				}
				defer closing(t, w)
				types, err := read(w)
				if diff := cmp.Diff([]string{"ADDED", "BOOKMARK", "END"}, types); diff != "" || !errors.Is(err, io.EOF) {
					t.Errorf("%v %s", err, diff)
				}
			})
		}
	}
}

func TestFrameGivesObjectAndMetadata(t *testing.T) {
	c := serve(t, jsonAnswer(added), false)
	w, err := c.Watch(t.Context(), pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	f, err := w.Next()
	if err != nil {
		t.Fatalf("read the next: %v", err)
	}
	meta, err := f.Meta()
	want := client.Meta{Namespace: "d", Name: "a", UID: "u", ResourceVersion: "5"}
	if meta != want || err != nil || !strings.HasPrefix(string(f.Object), `{"metadata"`) {
		t.Errorf("%+v %v %s", meta, err, f.Object)
	}
}

func TestUnknownFramesDoNotEndTheStream(t *testing.T) {
	body := `7 null [] {} {"type":"WHAT","object":{}} {"type":"ADDED"} {"type":"BOOKMARK","object":7} {"kind":"ConfigMap"}` +
		added
	c := serve(t, jsonAnswer(body), false)
	w, err := c.Watch(t.Context(), pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	types, err := read(w)
	if len(types) != 9 || types[8] != "ADDED" || !errors.Is(err, io.EOF) {
		t.Fatalf("%v %v", types, err)
	}
	for _, name := range types[:8] {
		if name != "UNKNOWN" {
			t.Errorf("%v", types)
		}
	}
}

func TestCancelEndsAWatchWithItsCause(t *testing.T) {
	c := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		jsonAnswer(added)(rw, r)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}, false)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	w, err := c.Watch(ctx, pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	if _, err := w.Next(); err != nil {
		t.Fatalf("read the next: %v", err)
	}
	cancel(why)
	if _, err := w.Next(); !errors.Is(err, why) {
		t.Error(err)
	}
}

// TestGzipMembersAreDeliveredAtOnce: the server compresses each event as a member of
// its own and sends the second one only when the first one was read.
func TestGzipMembersAreDeliveredAtOnce(t *testing.T) {
	read := make(chan struct{})
	c := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("accepts %q", r.Header.Get("Accept-Encoding"))
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Encoding", "gzip")
		for _, frame := range []string{added, bookmark} {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, frame+"\n")
			_ = z.Close() // into memory
			_, _ = rw.Write(b.Bytes())
			_ = http.NewResponseController(rw).Flush()
			select {
			case <-read:
			case <-r.Context().Done():
			}
		}
	}, false)
	w, err := c.Watch(t.Context(), pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	for range 2 {
		if _, err := w.Next(); err != nil {
			t.Fatalf("read the next: %v", err)
		}
		read <- struct{}{}
	}
	if _, err := w.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestReadyReportsABufferedFrame(t *testing.T) {
	release := make(chan struct{})
	c := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		jsonAnswer(added+"\n"+bookmark+"\n"+added[:30])(rw, r)
		_ = http.NewResponseController(rw).Flush()
		<-release
	}, false)
	w, err := c.Watch(t.Context(), pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	defer close(release)
	if w.Ready() {
		t.Error("ready before anything was read")
	}
	if _, err := w.Next(); err != nil || !w.Ready() {
		t.Errorf("not ready with a frame in the buffer (%v)", err)
	}
	if _, err := w.Next(); err != nil || w.Ready() {
		t.Errorf("ready with half a frame (%v)", err)
	}
}

func TestConfiguredTimeoutDoesNotApplyToWatches(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			<-r.Context().Done()
			return
		}
		if d, has := r.Context().Deadline(); has {
			t.Errorf("deadline %v", d)
		}
		jsonAnswer(added)(rw, r)
	}))
	defer srv.Close()
	c, err := client.New(&rest.Config{Host: srv.URL, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer c.CloseIdle()
	if _, err := c.List(t.Context(), pods(""), metav1.ListOptions{},
		collect(new([]string))); kube.Classify(err) != kube.OutcomeTimeout {
		t.Errorf("list: %v", err)
	}
	w, err := c.Watch(t.Context(), pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer closing(t, w)
	if types, err := read(w); len(types) != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("watch: %v %v", types, err)
	}
}
