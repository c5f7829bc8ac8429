package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	inProtobuf      = "application/vnd.kubernetes.protobuf"
)

func definition(name string) string {
	return strings.NewReplacer("<name>", name, "<Name>", strings.ToUpper(name[:1])+name[1:]).Replace(
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"<name>s.t.example.com","labels":{"a":"b"}},
"spec":{"group":"t.example.com","scope":"Namespaced","names":{"plural":"<name>s","singular":"<name>","kind":"<Name>","listKind":"<Name>List"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`)
}

type definitionInformer = informer.Informer[*apiextensionsv1.CustomResourceDefinition]

// incidents collects what went wrong.
type incidents struct {
	mu  sync.Mutex
	all []informer.IncidentKind
}

func (n *incidents) add(in informer.Incident) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, in.Kind)
}

func (n *incidents) count(kind informer.IncidentKind) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.all {
		if k == kind {
			count++
		}
	}
	return count
}

// run starts an informer that ends with the test.
func run[T informer.Object](t *testing.T, i *informer.Informer[T]) *informer.Informer[T] {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	harness.Eventually(t, "the informer is synced", func() bool { return i.ResourceVersion() != "" })
	return i
}

// TestUpstreamProtobufIsDecoded follows what upstream's own server serves in protobuf,
// by list and by streaming list, beside an informer that reads JSON.
func TestUpstreamProtobufIsDecoded(t *testing.T) {
	r := startReference(t)
	cfg := &rest.Config{Host: r.front.URL}
	resource := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	for _, name := range []string{"apple", "pear"} {
		r.send(t, http.MethodPost, definitionsPath, definition(name))
	}
	var wrong incidents
	watch := func(source informer.Source[*apiextensionsv1.CustomResourceDefinition],
		opts ...informer.Option,
	) *definitionInformer {
		return run(t, informer.New(source, append(opts, informer.OnError(wrong.add))...))
	}
	typed := informer.For[*apiextensionsv1.CustomResourceDefinition]
	r.seen()
	listed := watch(typed(cfg, resource), informer.NoStreamingLists())
	streamed := watch(typed(cfg, resource))
	harness.Eventually(t, "the watches are open", func() bool {
		return listed.Status().State == "watching" && listed.Status().Watches > 0
	})
	for media := range r.seen() {
		if !strings.HasPrefix(media, inProtobuf) {
			t.Errorf("upstream answered with %s", media)
		}
	}
	text := watch(typed(cfg, resource, informer.JSONOnly()))
	if media := r.seen(); media["application/json"] == 0 {
		t.Errorf("upstream answered with %v", media)
	}
	metadata := run(t, informer.New(informer.Metadata(cfg, resource), informer.OnError(wrong.add)))
	if media := r.seen(); media[inProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1;stream=watch"] == 0 &&
		media[inProtobuf+";stream=watch"] == 0 {
		t.Errorf("upstream answered with %v", media)
	}

	same := func(t *testing.T, want int) {
		t.Helper()
		quiet := func() bool {
			rv := text.ResourceVersion()
			a, b, c := maps.Collect(listed.All()), maps.Collect(streamed.All()), maps.Collect(text.All())
			return len(a) == want && cmp.Equal(a, c, kinds) && cmp.Equal(b, c, kinds) && metadata.Len() == want &&
				rv == text.ResourceVersion()
		}
		harness.Eventually(t, fmt.Sprintf("all have the same %d definitions", want), quiet)
		for key, d := range listed.All() {
			m, _ := metadata.Get(key)
			if m == nil || m.Kind != "PartialObjectMetadata" || !cmp.Equal(d.ObjectMeta, m.ObjectMeta) ||
				len(d.ManagedFields) == 0 {
				t.Errorf("metadata of %s: %v", key, m)
			}
		}
	}
	established := func(t *testing.T, name string) {
		t.Helper()
		_, err := text.Until(t.Context(), informer.Key{Name: name + "s.t.example.com"},
			func(d *apiextensionsv1.CustomResourceDefinition, is bool) bool {
				return is && len(d.Status.Conditions) >= 2 && len(d.Status.StoredVersions) == 1
			})
		if err != nil {
			t.Fatalf("until text: %v", err)
		}
	}
	t.Run("changes", func(t *testing.T) {
		r.send(t, http.MethodPost, definitionsPath, definition("plum"))
		r.send(t, http.MethodPatch, definitionsPath+"/pears.t.example.com", `{"metadata":{"annotations":{"c":"d"}}}`)
		// Upstream's finalizer stops for minutes if it meets a storage that has not been read.
		harness.Eventually(t, "upstream serves apples", func() bool {
			code, _ := r.try(t, http.MethodGet, "/apis/t.example.com/v1/apples", "")
			return code == http.StatusOK
		})
		r.send(t, http.MethodDelete, definitionsPath+"/apples.t.example.com", "")
		established(t, "pear")
		established(t, "plum")
		same(t, 2)
	})
	t.Run("bookmarks and errors", func(t *testing.T) { bookmarksAndErrors(t, r) })
	t.Run("410", func(t *testing.T) {
		before := maps.Collect(streamed.All())
		r.disconnect(func() {
			r.send(t, http.MethodPost, definitionsPath, definition("fig"))
			r.send(t, http.MethodPatch, definitionsPath+"/plums.t.example.com", `{"metadata":{"annotations":{"e":"f"}}}`)
			r.restart(t)
		})
		established(t, "fig")
		same(t, 3)
		if streamed.Status().Gone == 0 || listed.Status().Gone == 0 {
			t.Errorf("no incident for the expired history: %+v", streamed.Status())
		}
		pear := informer.Key{Name: "pears.t.example.com"}
		if now, _ := streamed.Get(pear); now != before[pear] {
			t.Error("what did not change is another object now")
		}
	})
	if n := wrong.count(informer.Undecodable); n > 0 {
		t.Errorf("%d times something was not decoded", n)
	}
}

// kinds leaves out what the server says of an object in some answers only.
var kinds = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[metav1.TypeMeta]() }, cmp.Ignore())

// bookmarksAndErrors asks upstream's server for what an informer has to wait for.
func bookmarksAndErrors(t *testing.T, r *reference) {
	t.Helper()
	c, err := client.New(&rest.Config{Host: r.front.URL})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(c.CloseIdle)
	c = c.As(client.Form{Protobuf: true})
	of := client.Collection{GroupVersionResource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")}
	none := func([]byte) error { return nil }
	meta, err := c.List(t.Context(), of, metav1.ListOptions{}, none)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	seconds := int64(6) // a bookmark comes 2 s before the end
	w, err := c.Watch(t.Context(), of, metav1.ListOptions{
		ResourceVersion: meta.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Close()
	// A bookmark comes only if there is something new that the watch is not of, and the
	// server learns of that by a consistent list.
	r.send(t, http.MethodPost, "/apis/t.example.com/v1/namespaces/default/plums",
		`{"apiVersion":"t.example.com/v1","kind":"Plum","metadata":{"name":"a"}}`)
	if _, err := c.List(t.Context(), of, metav1.ListOptions{}, none); err != nil {
		t.Fatalf("list: %v", err)
	}
	bookmarks := 0
	for {
		f, err := w.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read the next: %v", err)
		}
		if m, err := f.Meta(); f.Type == kube.Bookmark && err == nil && m.ResourceVersion != "" {
			bookmarks++
		}
	}
	if bookmarks == 0 {
		t.Error("no bookmark came")
	}
	for want, o := range map[kube.Outcome]metav1.ListOptions{
		kube.OutcomeTooLarge: {ResourceVersion: "99999999999", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		kube.OutcomeInvalid:  {Continue: "none", ResourceVersionMatch: "Never"},
	} {
		if _, err := c.List(t.Context(), of, o, none); kube.Classify(err) != want {
			t.Errorf("want %v, got %v", want, err)
		}
	}
}
