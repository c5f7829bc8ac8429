package replicas_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
)

// encryption is a configuration that both servers have: the key is 32 bytes.
const encryption = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox: {keys: [{name: k1, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - identity: {}
`

// sides are a kube-apiserver and a replica of gapless on one etcd.
type sides struct {
	cluster          *harness.Cluster
	gapless          *replica
	upstream, ours   *rest.Config
	kubectl, replica dynamic.Interface // clients of upstream, and of gapless
	dir              string            // of gapless
	configure        func(*gapless.Config)
}

func startSides(t *testing.T) *sides {
	t.Helper()
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(encryption), 0o600); err != nil {
		t.Fatalf("write the configuration of encryption: %v", err)
	}
	s := &sides{
		cluster: harness.StartCluster(t, "--encryption-provider-config="+file), dir: t.TempDir(),
		configure: func(cfg *gapless.Config) { cfg.EncryptionProviderConfig = file },
	}
	s.upstream = &rest.Config{Host: s.cluster.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: s.cluster.Admin.CA, CertData: s.cluster.Admin.Cert, KeyData: s.cluster.Admin.Key,
	}}
	s.kubectl = dynamicOf(t, s.upstream)
	s.startGapless(t)
	return s
}

// startGapless starts the replica, or starts it again with what it had.
func (s *sides) startGapless(t *testing.T) {
	t.Helper()
	s.gapless = start(t, s.cluster.EtcdURL(), s.dir, s.configure)
	s.ours = s.gapless.RESTConfig()
	s.replica = dynamicOf(t, s.ours)
}

func dynamicOf(t *testing.T, cfg *rest.Config) dynamic.Interface {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 1000, 1000
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	client, err := dynamic.NewForConfigAndClient(cfg, web)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return client
}

// same reads an object at both servers, and compares.
func (s *sides) same(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	theirs, err := s.kubectl.Resource(gvr).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read %s %s at kube-apiserver: %v", gvr.Resource, name, err)
	}
	ours, err := s.replica.Resource(gvr).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read %s %s at gapless: %v", gvr.Resource, name, err)
	}
	if diff := cmp.Diff(theirs.Object, ours.Object); diff != "" {
		t.Errorf("%s %s: -kube-apiserver +gapless:\n%s", gvr.Resource, name, diff)
	}
	return ours
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatalf("read an object: %v", err)
	}
	return u
}

var (
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
	services    = corev1.SchemeGroupVersion.WithResource("services")
	nodes       = corev1.SchemeGroupVersion.WithResource("nodes")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets     = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}
)

// each has one object of several kinds, whose keys and encodings are of different kinds too.
var each = []struct {
	gvr       schema.GroupVersionResource
	namespace string
	text      string
}{
	{configMaps, "default", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"k":"v"}}`},
	{secrets, "default", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"NAME"},"data":{"k":"dg=="}}`},
	{nodes, "", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"NAME"}}`},
	{deployments, "default", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME"},"spec":{
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
	{services, "default", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"NAME"},"spec":{
		"clusterIP":"None","selector":{"a":"b"},"ports":[{"port":80}]}}`},
	{services, "default", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"bare-NAME"},"spec":{"clusterIP":"None"}}`},
	{widgets, "default", `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"NAME"},"spec":{"size":7}}`},
}

const widgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"widgets.example.org"},"spec":{"group":"example.org","scope":"Namespaced",
	"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
	"properties":{"spec":{"type":"object","properties":{"size":{"type":"integer"}}}}}}}]}}`

// define creates the custom resource at one server, and waits until both serve it.
func (s *sides) define(t *testing.T) {
	t.Helper()
	if _, err := s.kubectl.Resource(definitions).Create(t.Context(), object(t, widgetDefinition),
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("create a definition at kube-apiserver: %v", err)
	}
	for name, at := range map[string]dynamic.Interface{"kube-apiserver": s.kubectl, "gapless": s.replica} {
		harness.Eventually(t, name+" serves the custom resource", func() bool {
			_, err := at.Resource(widgets).Namespace("default").List(t.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
}

func TestBothServersServeWhatEitherWrites(t *testing.T) {
	s := startSides(t)
	s.define(t)
	for _, writer := range []struct {
		name string
		at   dynamic.Interface
		back dynamic.Interface
	}{{"upstream", s.kubectl, s.replica}, {"gapless", s.replica, s.kubectl}} {
		t.Run(writer.name, func(t *testing.T) {
			for _, of := range each {
				u := object(t, strings.ReplaceAll(of.text, "NAME", "by-"+writer.name))
				made, err := writer.at.Resource(of.gvr).Namespace(of.namespace).Create(t.Context(), u, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("create %s: %v", of.gvr.Resource, err)
					continue
				}
				if got := s.same(t, of.gvr, of.namespace, u.GetName()); got.GetResourceVersion() != made.GetResourceVersion() {
					t.Errorf("%s is at %s, want %s", of.gvr.Resource, got.GetResourceVersion(), made.GetResourceVersion())
				}
				// The other one changes it.
				if _, err := writer.back.Resource(of.gvr).Namespace(of.namespace).Patch(t.Context(), u.GetName(),
					types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"changed":"true"}}}`), metav1.PatchOptions{}); err != nil {
					t.Errorf("change %s at the other server: %v", of.gvr.Resource, err)
				}
				s.same(t, of.gvr, of.namespace, u.GetName())
				if err := writer.back.Resource(of.gvr).Namespace(of.namespace).Delete(t.Context(), u.GetName(),
					metav1.DeleteOptions{}); err != nil {
					t.Errorf("delete %s at the other server: %v", of.gvr.Resource, err)
				}
				_, err = writer.at.Resource(of.gvr).Namespace(of.namespace).Get(t.Context(), u.GetName(), metav1.GetOptions{})
				if !apierrors.IsNotFound(err) {
					t.Errorf("read %s after its deletion: %v, want that it is gone", of.gvr.Resource, err)
				}
			}
		})
	}
}

// TestAWatchMovesFromOneServerToTheOther: resourceVersions are the same.
func TestAWatchMovesFromOneServerToTheOther(t *testing.T) {
	s := startSides(t)
	at := s.kubectl.Resource(configMaps).Namespace("default")
	first, err := at.Create(t.Context(), object(t, strings.ReplaceAll(each[0].text, "NAME", "first")), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create at kube-apiserver: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := at.Create(t.Context(), object(t, strings.ReplaceAll(each[0].text, "NAME", name)),
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("create at kube-apiserver: %v", err)
		}
	}
	w, err := s.replica.Resource(configMaps).Namespace("default").Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: first.GetResourceVersion()})
	if err != nil {
		t.Fatalf("watch at gapless from what kube-apiserver has answered: %v", err)
	}
	defer w.Stop()
	for _, name := range []string{"a", "b", "c"} {
		if e := next(t, w); e.Type != watch.Added || e.Object.(*unstructured.Unstructured).GetName() != name {
			t.Fatalf("the watch has %s of %v, want the creation of %s", e.Type, e.Object, name)
		}
	}
}

// TestWithoutEtcdOnlyTheLastKnownStateIsServed: who needs more gets 503 at once, until etcd is back.
func TestWithoutEtcdOnlyTheLastKnownStateIsServed(t *testing.T) {
	s := startSides(t)
	at := s.replica.Resource(configMaps).Namespace("default")
	text := strings.ReplaceAll(each[0].text, "NAME", "kept")
	if _, err := at.Create(t.Context(), object(t, text), metav1.CreateOptions{}); err != nil {
		t.Fatalf("create an object: %v", err)
	}
	w, err := at.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	s.cluster.StopEtcd()
	harness.Eventually(t, "the replica is not ready", func() bool { return s.code(t, "/readyz") != http.StatusOK })
	if code := s.code(t, "/livez"); code != http.StatusOK {
		t.Errorf("/livez without etcd: %d: a restart would not help", code)
	}
	const known = "0"
	if _, err := at.Get(t.Context(), "kept", metav1.GetOptions{ResourceVersion: known}); err != nil {
		t.Errorf("read the last known version without etcd: %v", err)
	}
	if list, err := at.List(t.Context(), metav1.ListOptions{ResourceVersion: known}); err != nil || len(list.Items) == 0 {
		t.Errorf("list the last known state without etcd: %v, %v", list, err)
	}
	if _, err := at.Get(t.Context(), "kept", metav1.GetOptions{}); !apierrors.IsServiceUnavailable(err) ||
		!strings.Contains(err.Error(), "resourceVersion=0") {
		t.Errorf("read the newest version without etcd: %v, want 503 and what to do", err)
	}
	_, err = at.Create(t.Context(), object(t, strings.ReplaceAll(each[0].text, "NAME", "lost")), metav1.CreateOptions{})
	if seconds, again := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !again || seconds < 1 {
		t.Errorf("create without etcd: %v, want 503 with Retry-After", err)
	}
	s.cluster.StartEtcd()
	harness.Eventually(t, "the replica is ready again", func() bool { return s.code(t, "/readyz") == http.StatusOK })
	if _, err := at.Create(t.Context(), object(t, strings.ReplaceAll(each[0].text, "NAME", "found")),
		metav1.CreateOptions{}); err != nil {
		t.Errorf("create with etcd again: %v", err)
	}
	for { // kube-apiserver's own may come first
		e := next(t, w)
		if of, is := e.Object.(*unstructured.Unstructured); is && of.GetName() == "found" && e.Type == watch.Added {
			break
		}
	}
	harness.Eventually(t, "kube-apiserver serves again", func() bool {
		_, err := s.kubectl.Resource(configMaps).Namespace("default").Get(t.Context(), "kept", metav1.GetOptions{})
		return err == nil
	})
	s.same(t, configMaps, "default", "kept")
}

// code returns the code of the replica's answer for a path.
func (s *sides) code(t *testing.T, path string) int {
	t.Helper()
	web, err := rest.HTTPClientFor(s.ours)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer web.CloseIdleConnections()
	web.Timeout = 30 * time.Second
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.ours.Host+path, nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatalf("ask for %s: %v", path, err)
	}
	_ = resp.Body.Close() // it was not read
	return resp.StatusCode
}
