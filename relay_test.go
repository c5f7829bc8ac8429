package gapless_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/status"
)

// startRelay runs a relay until the test ends.
func startRelay(t testing.TB, cfg gapless.RelayConfig) *gapless.Relay {
	t.Helper()
	if cfg.Access.ClientCAFile == "" && !cfg.Access.Passthrough {
		cfg.Access.ClientCAFile = filepath.Join(t.TempDir(), "ca.crt") // of the gaplesstest server
		if err := os.WriteFile(cfg.Access.ClientCAFile, cfg.Upstream.CAData, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	r, _ := runRelay(t, cfg)
	return r
}

// runRelay runs a relay until stop is called, or the test ends.
func runRelay(t testing.TB, cfg gapless.RelayConfig) (r *gapless.Relay, stop func()) {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	r, err := gapless.NewRelay(cfg)
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }() // it ends with stop
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case <-r.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatalf("wait for the end: %v", err)
	}
	return r, stop
}

// through is a client configuration for the relay, with the credentials of another one.
func through(r *gapless.Relay, cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = r.URL()
	cfg.CAData, cfg.CAFile = r.CA(), ""
	cfg.Dial = nil
	return cfg
}

func set(t testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return c
}

func TestRelayServesWhatUpstreamAllows(t *testing.T) {
	upstream := gaplesstest.New(t)
	admin := set(t, upstream.RESTConfig())
	ctx := t.Context()
	r := startRelay(t, gapless.RelayConfig{
		Upstream: upstream.RESTConfig(), Memory: true,
		Access: gapless.RelayAccess{Allowed: 50 * time.Millisecond, Denied: 50 * time.Millisecond},
	})
	alice := upstream.User(t, "alice")
	reader := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "default"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create"}},
		},
	}
	relayed := set(t, through(r, alice)).CoreV1().ConfigMaps("default")
	if _, err := relayed.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a list without a role: %v, want 403", err)
	}
	if _, err := admin.RbacV1().Roles("default").Create(ctx, reader, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create roles: %v", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "default"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}},
	}
	if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create role bindings: %v", err)
	}
	waitUntil(t, func() error {
		_, err := relayed.List(ctx, metav1.ListOptions{})
		return err
	})
	list, err := relayed.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list through the relay: %v", err)
	}
	w, err := relayed.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatalf("watch through the relay: %v", err)
	}
	defer w.Stop()
	// A write is upstream's business; who wrote reads it.
	made, err := relayed.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create through the relay: %v", err)
	}
	if list, err = relayed.List(ctx, metav1.ListOptions{}); err != nil ||
		!slices.ContainsFunc(list.Items, func(o corev1.ConfigMap) bool { return o.UID == made.UID }) {
		t.Errorf("the list after a write through the relay: %v, %v", list, err)
	}
	if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).ResourceVersion != made.ResourceVersion {
		t.Errorf("the watch has %+v, want the new object", e)
	}
	if err := relayed.Delete(ctx, "a", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a deletion without the permission: %v, want 403", err)
	}
	// The permission of an open watch is checked again.
	if err := admin.RbacV1().RoleBindings("default").Delete(ctx, "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete role bindings: %v", err)
	}
	select {
	case e, open := <-w.ResultChan():
		if status, is := e.Object.(*metav1.Status); open && (!is || status.Code != http.StatusForbidden) {
			t.Errorf("the watch ended with %+v, want 403", e)
		}
	case <-time.After(20 * time.Second):
		t.Error("the watch goes on although it is no longer allowed")
	}
	waitUntil(t, func() error {
		if _, err := relayed.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			return errors.New("a list is still allowed")
		}
		return nil
	})
}

func TestRelaySaysWhatItMirrors(t *testing.T) {
	upstream := gaplesstest.New(t)
	r := startRelay(t, gapless.RelayConfig{Upstream: upstream.RESTConfig(), Memory: true, Resources: []string{"configmaps"}})
	client, err := rest.HTTPClientFor(through(r, upstream.RESTConfig()))
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	get := func(path string) (int, []byte) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+path, nil)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("send a request: %v", err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("read to the end: %v", err)
		}
		return resp.StatusCode, body
	}
	waitUntil(t, func() error {
		if code, body := get("/readyz?verbose"); code != http.StatusOK {
			return errors.New(string(body))
		}
		return nil
	})
	code, body := get(status.RelayPath)
	var reported status.Relay
	if err := json.Unmarshal(body, &reported); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	if len(reported.Resources) != 1 || reported.Resources[0].Resource != "configmaps.v1" ||
		reported.Resources[0].ResourceVersion == 0 {
		t.Errorf("the status is %s", body)
	}
	// What readers got without upstream.
	const list = "/api/v1/namespaces/default/configmaps?resourceVersion=0"
	_, first := get(list)
	_, second := get(list)
	relayed := set(t, through(r, upstream.RESTConfig())).CoreV1().ConfigMaps("default")
	w, err := relayed.Watch(t.Context(), metav1.ListOptions{ResourceVersion: reported.Resources[0].ResourceVersion.String()})
	if err != nil {
		t.Fatalf("watch through the relay: %v", err)
	}
	defer w.Stop()
	if _, err := relayed.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("create through the relay: %v", err)
	}
	<-w.ResultChan()
	waitUntil(t, func() error { // the event is counted after it was sent
		_, body := get(status.RelayPath)
		if err := json.Unmarshal(body, &reported); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		of := reported.Resources[0]
		if least := int64(len(first) + len(second) + len("{}")); of.ListsServed != 2 || of.WatchesResumed != 1 ||
			of.Readers != 1 || of.BytesServed < least || of.ListsPassed != 0 {
			return fmt.Errorf("the status is %s, want two lists and a watch of more than %d bytes", body, least)
		}
		if of.Behind != 0 || of.Lag != 0 {
			return fmt.Errorf("the status is %s, want nobody behind", body)
		}
		return nil
	})
	// Everything that is no list or watch of a mirrored resource is upstream's answer.
	for _, path := range []string{
		"/version", "/apis", "/api/v1", "/openapi/v2", "/api/v1/namespaces/default", "/apis/none.example.com/v1/things",
	} {
		if code, body := get(path); code != http.StatusOK && code != http.StatusNotFound || len(body) == 0 {
			t.Errorf("GET %s = %d %s", path, code, body)
		}
	}
}

func TestARelayOfARelayServesTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	upstream := gaplesstest.New(t)
	first := startRelay(t, gapless.RelayConfig{Upstream: upstream.RESTConfig(), Memory: true})
	ca := filepath.Join(t.TempDir(), "ca.crt") // of the clients' certificates, which are upstream's
	if err := os.WriteFile(ca, upstream.RESTConfig().CAData, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	// A relay passes callers with certificates on under its own credentials, which must be a token
	// for another relay: that one does the same.
	ctx := t.Context()
	admin := set(t, upstream.RESTConfig())
	_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "relay"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "relay"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create cluster role bindings: %v", err)
	}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "relay"}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create service accounts: %v", err)
	}
	token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "relay", &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create token: %v", err)
	}
	own := rest.AnonymousClientConfig(through(first, upstream.RESTConfig()))
	own.BearerToken = token.Status.Token
	second := startRelay(t, gapless.RelayConfig{Upstream: own, Memory: true, Access: gapless.RelayAccess{ClientCAFile: ca}})
	relayed := set(t, through(second, upstream.RESTConfig())).CoreV1().ConfigMaps("default")
	list, err := relayed.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list through the relay: %v", err)
	}
	made, err := relayed.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create through the relay: %v", err)
	}
	w, err := relayed.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatalf("watch through the relay: %v", err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added || e.Object.(*corev1.ConfigMap).ResourceVersion != made.ResourceVersion {
		t.Errorf("the watch has %+v, want the new object", e)
	}
	if list, err = relayed.List(ctx, metav1.ListOptions{}); err != nil ||
		!slices.ContainsFunc(list.Items, func(o corev1.ConfigMap) bool { return o.UID == made.UID }) {
		t.Errorf("the list after the write: %v, %v", list, err)
	}
}

func TestShardsOfRelaysMirrorDifferentResources(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	upstream := gaplesstest.New(t)
	seen := map[string]int{}
	for shard := range 3 {
		r := startRelay(t, gapless.RelayConfig{
			Upstream: upstream.RESTConfig(), Memory: true, Resources: []string{"*"}, Shard: shard, Shards: 3,
		})
		client, err := rest.HTTPClientFor(through(r, upstream.RESTConfig()))
		if err != nil {
			t.Fatalf("make an HTTP client: %v", err)
		}
		var reported status.Relay
		waitUntil(t, func() error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+status.RelayPath, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&reported); err != nil {
				return err
			}
			if len(reported.Resources) == 0 {
				return errors.New("nothing is mirrored yet")
			}
			return nil
		})
		for _, resource := range reported.Resources {
			seen[resource.Resource]++
		}
		// The others are passed through.
		c := set(t, through(r, upstream.RESTConfig()))
		_, errMaps := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		_, errJobs := c.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{})
		if err := errors.Join(errMaps, errJobs); err != nil {
			t.Error(err)
		}
	}
	if len(seen) < 30 || seen["secrets.v1"] != 0 {
		t.Errorf("%d resources are mirrored, Secrets %d times", len(seen), seen["secrets.v1"])
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is mirrored by %d shards", name, n)
		}
	}
}

func TestRelayIsRefusedTheDirectoryOfAServer(t *testing.T) {
	dir := t.TempDir()
	s := launch(t, gapless.Config{DataDir: dir})
	cfg := s.RESTConfig()
	s.stop()
	r, err := gapless.NewRelay(gapless.RelayConfig{Upstream: cfg, DataDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	if err := r.Run(t.Context()); err == nil {
		t.Error("a relay runs in the data directory of a server")
	}
}

// waitUntil tries until there is no error.
func waitUntil(t *testing.T, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}
