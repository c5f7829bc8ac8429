package informer_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// eventually waits until the cache is the server's state; only a deadline of the
// test itself ends it otherwise.
func eventually(t *testing.T, w *server, i *informer.Informer[*thing]) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for cmp.Diff(w.state(t), cached(i)) != "" {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(cmp.Diff(w.state(t), cached(i)))
		}
	}
}

func TestInformerOverSockets(t *testing.T) {
	for name, first := range map[string][]fault{
		"well":      nil,
		"cut":       {{End: "cut", After: 3}, {End: "cut", After: 1}},
		"410":       {{End: "410", After: 5}, {Status: 410, Reason: "Expired"}},
		"422":       {{Status: 422, Reason: "Invalid"}},
		"half":      {{End: "half", After: 4}},
		"throttled": {{Status: 503, RetryAfter: 1}},
		"refused":   {{Refuse: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newServer()
			for n := range 4 {
				w.Put(fmt.Sprint("o", n), n)
			}
			w.Fail(listwatchtest.Faults(first...))
			rec := newRecorder()
			i := w.overHTTP(t)
			i.Handle(rec.handle, informer.Workers(2))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- i.Run(ctx) }()
			if err := i.WaitSynced(ctx); err != nil {
				t.Fatalf("wait until it is synced: %v", err)
			}
			for n := range 200 {
				w.Put(fmt.Sprint("o", n%10), n)
				if n%17 == 0 {
					w.Delete(fmt.Sprint("o", n%10))
				}
			}
			eventually(t, w, i)
			cancel()
			if err := <-done; err != nil {
				t.Errorf("wait for the end: %v", err)
			}
			rec.check(t)
		})
	}
}

func TestConnectionRefusedOnARealSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	refused := make(chan informer.Incident, 16)
	i := informer.New(informer.For[*thing](&rest.Config{Host: "http://" + address}, thingsGVR()),
		informer.OnError(func(in informer.Incident) { refused <- in }))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	if in := <-refused; in.Kind != informer.Refused || in.Next == "" {
		t.Errorf("incident %v", in)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("wait for the end: %v", err)
	}
}

// TestSelectorsAndTypes checks what is sent, and that the types people use decode.
func TestSelectorsAndTypes(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"prod","uid":"u1","resourceVersion":"7",` +
		`"creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"100m"}}}]},"status":{"phase":"Running"}}`
	asked := make(chan string, 8)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		select {
		case asked <- r.URL.Path + " " + q.Get("labelSelector") + " " + q.Get("fieldSelector"):
		default: // only the first ones count
		}
		fmt.Fprintf(rw,
			`{"type":"ADDED","object":%s}`+"\n"+
				`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9",`+
				`"annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", pod)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	defer srv.CloseClientConnections()
	cfg := &rest.Config{Host: srv.URL}
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	sel, err := labels.Parse("app=web")
	if err != nil {
		t.Fatalf("parse the selector: %v", err)
	}
	pods := informer.New(informer.For[*corev1.Pod](cfg, gvr, informer.Namespace("prod"), informer.Labels(sel)))
	anything := informer.New(informer.For[*unstructured.Unstructured](cfg, gvr))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	if got := <-asked; got != "/api/v1/namespaces/prod/pods app=web " {
		t.Errorf("asked %q", got)
	}
	go func() { done <- anything.Run(ctx) }()
	if err := anything.WaitSynced(ctx); err != nil {
		t.Fatalf("wait until it is synced: %v", err)
	}
	k := informer.Key{Namespace: "prod", Name: "p"}
	if p, is := pods.Get(k); !is || p.Status.Phase != corev1.PodRunning ||
		p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != 100 || p.CreationTimestamp.Year() != 2026 {
		t.Errorf("pod %v", p)
	}
	if u, is := anything.Get(k); !is || u.GetKind() != "Pod" || pods.ResourceVersion() != "9" {
		t.Errorf("unstructured %v", u)
	}
	cancel()
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}
}

func TestAnInvalidSourceIsAnErrorOfRun(t *testing.T) {
	bad := &rest.Config{Host: "http://%zz"}
	if err := informer.New(informer.For[*thing](bad, thingsGVR())).Run(t.Context()); err == nil {
		t.Error("a host that is none")
	}
	if err := informer.New(informer.For[*thing](nil, thingsGVR())).Run(t.Context()); err == nil {
		t.Error("no configuration")
	}
}
