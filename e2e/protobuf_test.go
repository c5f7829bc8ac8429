package e2e_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// mediaTypes counts the content types of answers.
type mediaTypes struct {
	mu   sync.Mutex
	seen map[string]int
}

func (m *mediaTypes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.seen == nil {
				m.seen = map[string]int{}
			}
			m.seen[resp.Header.Get("Content-Type")]++
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// onlyProtobuf fails if an answer was in another encoding.
func (m *mediaTypes) onlyProtobuf(t *testing.T) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for media := range m.seen {
		if !strings.HasPrefix(media, protobufType) {
			t.Errorf("answers in %v", m.seen)
			return
		}
	}
	if len(m.seen) == 0 {
		t.Error("no answers")
	}
}

// inProtobuf is the configuration of clients that read protobuf only, and media what they
// are answered with.
func inProtobuf(t *testing.T, cfg *rest.Config) (only *rest.Config, media *mediaTypes) {
	t.Helper()
	only, media = rest.CopyConfig(cfg), &mediaTypes{}
	only.ContentType, only.AcceptContentTypes = protobufType, protobufType
	only.Wrap(media.wrap)
	return only, media
}

// typedClient is client-go's client in an encoding.
func typedClient(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	c, err := kubernetes.NewForConfigAndClient(cfg, web)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return c
}

func TestTypedClientsReadProtobuf(t *testing.T) {
	t.Parallel()
	s := launch(t, gapless.Config{})
	only, media := inProtobuf(t, s.RESTConfig())
	pods, plain := typedClient(t, only).CoreV1().Pods("default"), typedClient(t, s.RESTConfig()).CoreV1().Pods("default")
	ctx := t.Context()
	made, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "y"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a pod: %v", err)
	}
	got, err := pods.Get(ctx, "a", metav1.GetOptions{})
	want, wantErr := plain.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || wantErr != nil || !equality.Semantic.DeepEqual(want, got) || !equality.Semantic.DeepEqual(want, made) {
		t.Errorf("%v %v: %v, want %v", err, wantErr, got, want)
	}
	if _, err := pods.Get(ctx, "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) ||
		!strings.Contains(err.Error(), `pods "none" not found`) {
		t.Errorf("got %v", err)
	}
	if _, err := pods.Update(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}, Spec: got.Spec},
		metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "x=y"})
	if err != nil || len(list.Items) != 1 || list.ResourceVersion == "" {
		t.Fatalf("%v %v", list, err)
	}
	seconds := int64(6)
	w, err := pods.Watch(ctx, metav1.ListOptions{
		ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		t.Fatalf("watch pods: %v", err)
	}
	defer w.Stop()
	if err := pods.Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatalf("delete a pod: %v", err)
	}
	var changes, bookmarks []watch.EventType
	// A bookmark comes before the timeout; if the deletion takes seconds, it comes between the two changes.
	for e := range w.ResultChan() {
		if p, is := e.Object.(*corev1.Pod); !is || p.ResourceVersion == "" {
			t.Errorf("%s of %T", e.Type, e.Object)
		}
		if e.Type == watch.Bookmark {
			bookmarks = append(bookmarks, e.Type)
			continue
		}
		changes = append(changes, e.Type)
	}
	if !slices.Equal(changes, []watch.EventType{watch.Modified, watch.Deleted}) || len(bookmarks) == 0 {
		t.Errorf("events %v %v", changes, bookmarks)
	}
	media.onlyProtobuf(t)
}

func TestTypedWatchOfExpiredHistoryGetsAnErrorInProtobuf(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	s := launch(t, gapless.Config{})
	c := s.caller(t, http1)
	first := c.create("default", "a", "1").rv()
	c.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/default/configmaps/a", "")
	last := c.create("default", "c", "1").rv()
	if _, err := s.Compact(t.Context(), kube.ResourceVersion(number(t, last))); err != nil {
		t.Fatalf("compact: %v", err)
	}
	only, media := inProtobuf(t, s.RESTConfig())
	w, err := typedClient(t, only).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first})
	if err != nil {
		t.Fatalf("watch config maps: %v", err)
	}
	defer w.Stop()
	e := <-w.ResultChan()
	if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
		t.Errorf("%s %v", e.Type, err)
	}
	media.onlyProtobuf(t)
}

// TestInformersReadProtobuf runs the informer of this repository and client-go's metadata
// client; each asks for protobuf only. compat/clientgo does that with client-go's informer.
func TestInformersReadProtobuf(t *testing.T) {
	t.Parallel()
	s := launch(t, gapless.Config{})
	c := s.caller(t, http1)
	c.create("default", "a", "1")
	only, media := inProtobuf(t, s.RESTConfig())
	ours := informer.New(informer.For[*corev1.ConfigMap](only, corev1.SchemeGroupVersion.WithResource("configmaps")))
	inJSON := informer.New(informer.For[*corev1.ConfigMap](s.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps"),
		informer.JSONOnly()))
	small := informer.New(informer.Metadata(only, corev1.SchemeGroupVersion.WithResource("configmaps")))
	defer runInformer(t, ours)()
	defer runInformer(t, inJSON)()
	defer runInformer(t, small)()
	ctx := t.Context()

	c.create("default", "b", "1")
	c.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/default/configmaps/a", "")
	rv := c.create("default", "c", "1").rv()
	for _, i := range []interface {
		WaitRevision(ctx context.Context, rv string) error
	}{ours, inJSON, small} {
		if err := i.WaitRevision(ctx, rv); err != nil {
			t.Fatalf("wait for the revision: %v", err)
		}
	}
	if want, got := maps.Collect(inJSON.All()), maps.Collect(ours.All()); !equality.Semantic.DeepEqual(want, got) ||
		len(got) < 2 || small.Len() != len(got) {
		t.Errorf("from protobuf %v, from JSON %v, metadata of %d", got, want, small.Len())
	}
	for key, want := range inJSON.All() {
		if m, _ := small.Get(key); m == nil || !equality.Semantic.DeepEqual(want.ObjectMeta, m.ObjectMeta) {
			t.Errorf("%s: metadata %v", key, m)
		}
	}
	media.onlyProtobuf(t)

	web, err := rest.HTTPClientFor(only)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	m, err := metadata.NewForConfigAndClient(metadata.ConfigFor(only), web)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	all, err := m.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) < 2 || all.Items[0].Kind != "" && all.Items[0].Kind != "PartialObjectMetadata" {
		t.Errorf("%v %v", all, err)
	}
	media.onlyProtobuf(t)
}
