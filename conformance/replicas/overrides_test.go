package replicas_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

// eventsEtcd is an etcd for Events, which clients reach by a proxy that can refuse them.
type eventsEtcd struct {
	*etcd.Member

	proxy *harness.Proxy
}

// Address is where the proxy connects to.
func (e eventsEtcd) Address() string {
	u, err := url.Parse(e.Member.URL())
	if err != nil {
		return "" // it was parsed to be served
	}
	return u.Host
}

func (e eventsEtcd) url() string { return "http" + strings.TrimPrefix(e.proxy.URL(), "https") }

func startEventsEtcd(t *testing.T) eventsEtcd {
	t.Helper()
	m, err := etcd.Start(t.Context(), etcd.Options{Dir: t.TempDir(), NoSync: true, Token: "events"})
	if err != nil {
		t.Fatalf("start an etcd for Events: %v", err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Errorf("stop the etcd of Events: %v", err)
		}
	})
	e := eventsEtcd{Member: m}
	e.proxy = harness.NewProxy(t, e)
	return e
}

// apart puts Events into an etcd of their own.
func (e eventsEtcd) apart(cfg *gapless.Config) {
	cfg.Etcd.Overrides = []gapless.EtcdOverride{{Resource: "events", Servers: []string{e.url()}}}
	cfg.Etcd.CompactionInterval = gapless.Forever // the test says when
}

func event(name string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Reason: "Tested", Type: "Normal",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
	}
}

// createEvent creates an Event, and returns its resourceVersion.
func (r *replica) createEvent(t *testing.T, name string) string {
	t.Helper()
	made, err := r.client.CoreV1().Events("default").Create(t.Context(), event(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create the Event %s: %v", name, err)
	}
	return made.ResourceVersion
}

// eventSince returns the name of the first Event that a replica has after a resourceVersion.
func (r *replica) eventSince(t *testing.T, rv string) string {
	t.Helper()
	w, err := r.client.CoreV1().Events("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: rv})
	if err != nil {
		t.Fatalf("watch Events from %s: %v", rv, err)
	}
	defer w.Stop()
	e := next(t, w)
	if of, is := e.Object.(*corev1.Event); is {
		return of.Name
	}
	return apierrors.FromObject(e.Object).Error()
}

// answer returns the code and the header Age of a replica's answer for a path.
func (r *replica) answer(t *testing.T, path string) (code int, age string) {
	t.Helper()
	web, err := rest.HTTPClientFor(r.RESTConfig())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer web.CloseIdleConnections()
	web.Timeout = 30 * time.Second
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+path, nil)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatalf("ask for %s: %v", path, err)
	}
	_ = resp.Body.Close() // it was not read
	return resp.StatusCode, resp.Header.Get("Age")
}

// keysBelow returns what an etcd has below a prefix.
func keysBelow(t *testing.T, client *clientv3.Client, prefix string) *clientv3.GetResponse {
	t.Helper()
	resp, err := client.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("read %s from etcd: %v", prefix, err)
	}
	return resp
}

// TestEventsAreInAClusterOfTheirOwn: their resourceVersions are its revisions, and their history is the
// replica's, however often either etcd is compacted.
func TestEventsAreInAClusterOfTheirOwn(t *testing.T) {
	mainURL, of := member(t), startEventsEtcd(t)
	dir := t.TempDir()
	a, b := start(t, mainURL, dir, of.apart), start(t, mainURL, t.TempDir(), of.apart)
	for i := range 10 {
		if _, err := a.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("c"+strconv.Itoa(i), "1"),
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("create a ConfigMap: %v", err)
		}
	}
	first := a.createEvent(t, "first")
	second := b.createEvent(t, "second")
	if got := a.eventSince(t, first); got != "second" {
		t.Errorf("after %s A has the Event %q, want the second", first, got)
	}
	own, others := etcdAt(t, of.Member.URL()), etcdAt(t, mainURL)
	stored := keysBelow(t, own, "/registry/events/")
	if len(stored.Kvs) != 2 || string(stored.Kvs[0].Key) != "/registry/events/default/first" ||
		strconv.FormatInt(stored.Kvs[0].ModRevision, 10) != first || stored.Kvs[0].Lease == 0 {
		t.Errorf("the etcd of Events has %v, want both with leases, the first at %s", stored.Kvs, first)
	}
	if left := keysBelow(t, others, "/registry/events/"); len(left.Kvs) != 0 {
		t.Errorf("the other etcd has %d Events", len(left.Kvs))
	}
	if left := keysBelow(t, own, "/registry/configmaps/"); len(left.Kvs) != 0 {
		t.Errorf("the etcd of Events has %d ConfigMaps", len(left.Kvs))
	}
	for name, client := range map[string]*clientv3.Client{"Events": own, "the others": others} {
		if _, err := client.Compact(t.Context(), keysBelow(t, client, "/gapless/").Header.Revision); err != nil {
			t.Fatalf("compact the etcd of %s: %v", name, err)
		}
	}
	a.stop(t)
	third := b.createEvent(t, "third")
	a = start(t, mainURL, dir, of.apart)
	harness.Eventually(t, "A has the third Event", func() bool {
		got, err := a.client.CoreV1().Events("default").Get(t.Context(), "third", metav1.GetOptions{})
		return err == nil && got.ResourceVersion == third
	})
	if got := a.eventSince(t, first); got != "second" {
		t.Errorf("after a compaction and a restart A has after %s the Event %q, want the second", first, got)
	}
	if got := a.eventSince(t, second); got != "third" {
		t.Errorf("after %s A has the Event %q, want the one that was written while it was away", second, got)
	}
}

// TestWithoutTheClusterOfEventsAllElseGoesOn: also at a replica that starts meanwhile.
func TestWithoutTheClusterOfEventsAllElseGoesOn(t *testing.T) {
	mainURL, of := member(t), startEventsEtcd(t)
	a := start(t, mainURL, t.TempDir(), of.apart)
	a.createEvent(t, "kept")
	of.proxy.Refuse()
	of.proxy.Cut()
	harness.Eventually(t, "Events are refused", func() bool {
		_, err := a.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		return apierrors.IsServiceUnavailable(err)
	})
	_, err := a.client.CoreV1().Events("default").Create(t.Context(), event("lost"), metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("create an Event without its etcd: %v, want 503", err)
	}
	for path, want := range map[string]int{
		"/readyz": http.StatusInternalServerError, "/livez": http.StatusOK,
		"/readyz/etcd-override-0":           http.StatusInternalServerError,
		"/readyz/etcd-override-readiness-0": http.StatusInternalServerError,
		"/readyz/etcd-quorum":               http.StatusOK, "/readyz/etcd-readiness": http.StatusOK,
	} {
		harness.Eventually(t, path+" has the answer "+strconv.Itoa(want), func() bool {
			code, _ := a.answer(t, path)
			return code == want
		})
	}
	for path, aged := range map[string]bool{
		"/api/v1/namespaces/default/events?resourceVersion=0": true, "/apis/events.k8s.io/v1/events?resourceVersion=0": true,
		"/api/v1/configmaps?resourceVersion=0": false, "/api/v1/namespaces/default/configmaps": false,
	} {
		if code, age := a.answer(t, path); code != http.StatusOK || (age != "") != aged {
			t.Errorf("%s without the etcd of Events: %d with Age %q", path, code, age)
		}
	}
	if status := a.status(t); status.Away != "" || len(status.Overrides) != 1 || status.Overrides[0].Away == "" ||
		strings.Join(status.Overrides[0].Resources, " ") != "events" {
		t.Errorf("the status is %+v, want only Events to be away", status)
	}
	late := start(t, mainURL, t.TempDir(), of.apart)
	for name, r := range map[string]*replica{"a": a, "late": late} {
		if _, err := r.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name, "1"),
			metav1.CreateOptions{}); err != nil {
			t.Errorf("create a ConfigMap without the etcd of Events: %v", err)
		}
	}
	_, err = late.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("list Events at a replica that never had them: %v, want 503", err)
	}
	of.proxy.Accept(t)
	for name, r := range map[string]*replica{"a": a, "late": late} {
		harness.Eventually(t, "Events are served again by "+name, func() bool {
			got, err := r.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
			return err == nil && slices.ContainsFunc(got.Items, func(e corev1.Event) bool { return e.Name == "kept" })
		})
		harness.Eventually(t, "ready again: "+name, func() bool {
			code, _ := r.answer(t, "/readyz")
			return code == http.StatusOK
		})
		r.createEvent(t, "of-"+name)
	}
}

// TestAClusterUnderTwoNamesIsRefused: its two logs would be registered as one replica.
func TestAClusterUnderTwoNamesIsRefused(t *testing.T) {
	of := startEventsEtcd(t)
	cfg := gapless.Config{
		DataDir: t.TempDir(), Listen: "127.0.0.1:0", Etcd: gapless.Etcd{Servers: []string{of.Member.URL()}}, Logger: logger(t),
	}
	of.apart(&cfg)
	s, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("configure a replica: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), "are one cluster of etcd") {
		t.Errorf("run a replica of a cluster with two names: %v, want an error that says it", err)
	}
}

// TestBothServersKeepEventsInTheSameCluster: with kube-apiserver's flag of the same value.
func TestBothServersKeepEventsInTheSameCluster(t *testing.T) {
	of := startEventsEtcd(t)
	s := &sides{cluster: harness.StartCluster(t, "--etcd-servers-overrides=/events#"+of.url())}
	s.upstream = &rest.Config{Host: s.cluster.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: s.cluster.Admin.CA, CertData: s.cluster.Admin.Cert, KeyData: s.cluster.Admin.Key,
	}}
	s.gapless = start(t, s.cluster.EtcdURL(), t.TempDir(), of.apart)
	s.ours = s.gapless.RESTConfig()
	s.kubectl, s.replica = dynamicOf(t, s.upstream), dynamicOf(t, s.ours)
	own, others := etcdAt(t, of.Member.URL()), etcdAt(t, s.cluster.EtcdURL())
	text := `{"apiVersion":"v1","kind":"Event","metadata":{"name":"NAME","namespace":"default"},
		"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"reason":"Tested","type":"Normal"}`
	for name, at := range map[string]dynamic.Interface{"of-upstream": s.kubectl, "of-gapless": s.replica} {
		u := object(t, strings.ReplaceAll(text, "NAME", name))
		made, err := at.Resource(events).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create the Event %s: %v", name, err)
		}
		seen := s.same(t, events, "default", name)
		if seen.GetResourceVersion() != made.GetResourceVersion() {
			t.Errorf("%s was created at %s and is read at %s", name, made.GetResourceVersion(), seen.GetResourceVersion())
		}
		stored := keysBelow(t, own, "/registry/events/default/"+name)
		if len(stored.Kvs) != 1 || strconv.FormatInt(stored.Kvs[0].ModRevision, 10) != made.GetResourceVersion() ||
			stored.Kvs[0].Lease == 0 {
			t.Errorf("the etcd of Events has %v for %s, want it with a lease at %s", stored.Kvs, name, made.GetResourceVersion())
		}
	}
	if left := keysBelow(t, others, "/registry/events/"); len(left.Kvs) != 0 {
		t.Errorf("the other etcd has %d Events", len(left.Kvs))
	}
	for server, cfg := range map[string]*rest.Config{"kube-apiserver": s.upstream, "gapless": s.ours} {
		for _, check := range []string{"etcd-override-0", "etcd-override-readiness-0"} {
			web, err := rest.HTTPClientFor(cfg)
			if err != nil {
				t.Fatalf("make a client: %v", err)
			}
			t.Cleanup(web.CloseIdleConnections)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+"/readyz/"+check, nil)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			resp, err := web.Do(req)
			if err != nil {
				t.Fatalf("ask %s for its check: %v", server, err)
			}
			_ = resp.Body.Close() // it was not read
			if resp.StatusCode != http.StatusOK {
				t.Errorf("the check %s of %s: %d", check, server, resp.StatusCode)
			}
		}
	}
}
