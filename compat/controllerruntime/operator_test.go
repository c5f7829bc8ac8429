package controllerruntime

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	shopDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	shopsV1         = "/apis/example.org/v1/namespaces/default/shops"
	shopsV2         = "/apis/example.org/v2/namespaces/default/shops"
	shopConfigMaps  = "/api/v1/namespaces/default/configmaps"
)

// shopVersions are the versions of the definition; one of them is stored.
func shopVersions(stored string, names ...string) string {
	schemas := map[string]string{
		"v1": `"of":{"type":"string"}`,
		"v2": `"content":{"type":"object","properties":{"of":{"type":"string"}}}`,
	}
	var all []string
	for _, name := range names {
		all = append(all,
			fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{%s}},"status":{"type":"object","properties":{"of":{"type":"string"}}}}}}}`,
				name, name == stored, schemas[name]))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// TestOperatorWithTwoVersions plays an operator by controller-runtime: apply
// configurations, a conversion webhook of its own, owners, finalizers and the status; then the
// storage version moves, and the first version and the webhook go.
func TestOperatorWithTwoVersions(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	s := harness.Start(t)
	p := harness.NewProxy(t, s)
	u := &user{T: t, url: s.URL, web: harness.Administrator(t, s).Client(t)}
	scheme, err := shopScheme()
	if err != nil {
		t.Fatalf("shop scheme: %v", err)
	}
	var reviews atomic.Int64
	handler := conversion.NewWebhookHandler(scheme, conversion.NewRegistry())
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reviews.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(hook.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	u.do(http.MethodPost, shopDefinitions,
		fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"shops.example.org"},
		"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"shops","singular":"shop","kind":"Shop","listKind":"ShopList"},"versions":%s,
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}}}}`,
			shopVersions("v1", "v1", "v2"), hook.URL, base64.StdEncoding.EncodeToString(authority)), http.StatusCreated)
	harness.Eventually(t, "shops are served", func() bool {
		code, _ := u.send(http.MethodGet, shopsV2, "")
		return code == http.StatusOK
	})

	writes := u.operate(s, p, scheme)
	(&harness.Operator{
		Owners: shopsV2, Children: shopConfigMaps, Notes: shopConfigMaps,
		Owner: func(name, value string) string {
			return fmt.Sprintf(
				`{"apiVersion":"example.org/v2","kind":"Shop","metadata":{"name":%q},"spec":{"content":{"of":%q}}}`, name, value)
		},
		Shows:  func(value string) string { return fmt.Sprintf(`"data":{"of":%q}`, value) },
		Status: func(value string) string { return fmt.Sprintf(`"status":{"of":%q}`, value) },
	}).Play(t, s, p)
	if old := u.do(http.MethodGet, shopsV1+"/second", "", http.StatusOK); !strings.Contains(old, `"spec":{"of":"five"}`) {
		t.Errorf("the first version shows %s", old)
	}
	u.do(http.MethodPost, shopsV1, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"old"},"spec":{"of":"six"}}`,
		http.StatusCreated)
	harness.Eventually(t, "what was created in the first version has a child", func() bool {
		_, child := u.send(http.MethodGet, shopConfigMaps+"/old", "")
		return strings.Contains(child, `"data":{"of":"six"}`)
	})
	u.managers(shopConfigMaps+"/old", "shops Apply")
	u.move()
	if reviews.Load() == 0 {
		t.Error("the webhook was not asked")
	}
	hook.Close()
	u.do(http.MethodDelete, shopsV2, "", http.StatusOK)
	for _, name := range []string{"second", "third", "old"} {
		for _, path := range []string{shopsV2 + "/" + name, shopConfigMaps + "/" + name} {
			harness.Eventually(t, path+" is gone", func() bool {
				code, _ := u.send(http.MethodGet, path, "")
				return code == http.StatusNotFound
			})
		}
		u.do(http.MethodGet, shopConfigMaps+"/"+name+"-was-here", "", http.StatusOK)
	}
	if left := u.do(http.MethodGet, shopsV2, "", http.StatusOK); !strings.Contains(left, `"items":[]`) {
		t.Errorf("left over: %s", left)
	}
	// 13 changes of owners and children, a restart and an outage, each with a few applies: the
	// operator does not chase its own writes.
	t.Logf("%d writes, %d reviews", writes.Load(), reviews.Load())
	if writes.Load() > 400 {
		t.Errorf("the operator has written %d times", writes.Load())
	}
}

// move moves the storage version, and then removes the first version with its webhook.
func (u *user) move() {
	u.Helper()
	u.do(http.MethodPatch, shopDefinitions+"/shops.example.org", `{"spec":{"versions":`+shopVersions("v2", "v1", "v2")+`}}`,
		http.StatusOK)
	for _, name := range []string{"second", "third", "old"} {
		harness.Eventually(u.T, name+" is written in the second version", func() bool {
			code, _ := u.send(http.MethodPut, shopsV2+"/"+name,
				u.withoutV1(u.do(http.MethodGet, shopsV2+"/"+name, "", http.StatusOK)))
			return code == http.StatusOK // 409: the operator was faster
		})
	}
	u.do(http.MethodPatch, shopDefinitions+"/shops.example.org/status", `{"status":{"storedVersions":["v2"]}}`, http.StatusOK)
	u.do(http.MethodPatch, shopDefinitions+"/shops.example.org",
		`{"spec":{"conversion":{"strategy":"None","webhook":null},"versions":`+shopVersions("v2", "v2")+`}}`, http.StatusOK)
	u.do(http.MethodGet, shopsV1+"/old", "", http.StatusNotFound)
	if now := u.do(http.MethodGet, shopsV2+"/old", "", http.StatusOK); !strings.Contains(now, `"content":{"of":"six"}`) {
		u.Errorf("after the move: %s", now)
	}
}

// withoutV1 returns an object whose managedFields do not name the first version: as upstream, the
// server refuses applies to an object whose fields are managed in a version that is gone.
func (u *user) withoutV1(object string) string {
	u.Helper()
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON([]byte(object)); err != nil {
		u.Fatalf("decode JSON: %v", err)
	}
	o.SetManagedFields(slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.APIVersion == "example.org/v1"
	}))
	text, err := o.MarshalJSON()
	if err != nil {
		u.Fatalf("encode as JSON: %v", err)
	}
	return string(text)
}

// operate runs the operator until the end of the test, and counts its writes.
func (u *user) operate(s *harness.Server, p *harness.Proxy, scheme *runtime.Scheme) (writes *atomic.Int64) {
	u.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		u.Fatalf("read the kubeconfig: %v", err)
	}
	cfg.Host = p.URL()
	writes = &atomic.Int64{}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return counted{next: next, writes: writes}
	})
	m, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		u.Fatalf("make a manager: %v", err)
	}
	if err := ctrl.NewControllerManagedBy(m).For(&shopV2{}).Owns(&corev1.ConfigMap{}).Complete(&shops{
		client: m.GetClient(),
	}); err != nil {
		u.Fatalf("complete owns: %v", err)
	}
	ctx, stop := context.WithCancel(u.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }() // ends with ctx
	u.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			u.Errorf("the manager: %v", err)
		}
	})
	return writes
}

// counted counts requests that are writes and were answered.
type counted struct {
	next   http.RoundTripper
	writes *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil && r.Method != http.MethodGet {
		c.writes.Add(1)
	}
	return resp, err
}

// user is a client of the server.
type user struct {
	*testing.T

	url string
	web *http.Client
}

// managers checks who manages an object.
func (u *user) managers(path string, want ...string) {
	u.Helper()
	var o struct {
		Metadata struct {
			ManagedFields []struct{ Manager, Operation string } `json:"managedFields"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(u.do(http.MethodGet, path, "", http.StatusOK)), &o); err != nil {
		u.Fatalf("decode JSON: %v", err)
	}
	var got []string
	for _, m := range o.Metadata.ManagedFields {
		got = append(got, m.Manager+" "+m.Operation)
	}
	if !slices.Equal(got, want) {
		u.Errorf("%s is managed by %q, want %q", path, got, want)
	}
}

func (u *user) do(method, path, body string, want int) string {
	u.Helper()
	code, answer := u.send(method, path, body)
	if code != want {
		u.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

func (u *user) send(method, path, body string) (code int, answer string) {
	u.Helper()
	req, err := http.NewRequestWithContext(u.Context(), method, u.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		u.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := u.web.Do(req)
	if err != nil {
		u.Fatalf("do web: %v", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		u.Fatalf("read to the end: %v", err)
	}
	return resp.StatusCode, string(text)
}
