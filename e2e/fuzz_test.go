package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

// recording is an http.ResponseWriter that keeps the answer, and calls flushed
// when the handler sends a part of it: a watch continues until its client leaves.
type recording struct {
	header  http.Header
	code    int
	body    bytes.Buffer
	flushed func()
}

func (r *recording) Header() http.Header { return r.header }

func (r *recording) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
}

func (r *recording) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

func (r *recording) Flush() { r.flushed() }

// serveOne passes a request to a handler and returns the answer; cut says that
// the handler broke it off because the client had left.
func serveOne(t testing.TB, h http.Handler, r *http.Request) (answer *recording, cut bool) {
	t.Helper()
	// A handler that waits for the future is left soon.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	answer = &recording{header: http.Header{}, flushed: cancel}
	defer func() {
		thrown := recover()
		if thrown == nil {
			return
		}
		if err, is := thrown.(error); !is || !errors.Is(err, http.ErrAbortHandler) || ctx.Err() == nil {
			t.Errorf("the handler panicked: %v", thrown)
		}
		cut = true
	}()
	h.ServeHTTP(answer, r.WithContext(ctx))
	return answer, false
}

// parseRequest reads a request as a server does; false if it would not be served.
func parseRequest(method, target, contentType, accept string, body []byte) (*http.Request, bool) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: gapless\r\n\r\n")))
	if err != nil || r.Host != "gapless" {
		return nil, false
	}
	for name, value := range map[string]string{"Content-Type": contentType, "Accept": accept} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r, true
}

// checkAnswer requires an answer in the protocol's forms.
func checkAnswer(t *testing.T, a *recording) {
	t.Helper()
	body := a.body.Bytes()
	if a.code == http.StatusInternalServerError {
		t.Errorf("500: %s", body)
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	switch media {
	case "application/json":
		dec := json.NewDecoder(bytes.NewReader(body))
		for {
			var value map[string]any
			if err := dec.Decode(&value); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%d is no JSON: %v: %q", a.code, err, body)
			}
			checkFailure(t, a.code, value)
		}
	case "application/yaml":
		var value map[string]any
		if err := yaml.Unmarshal(body, &value); err != nil {
			t.Fatalf("%d is no YAML: %v: %q", a.code, err, body)
		}
		checkFailure(t, a.code, value)
	case "text/plain":
		if a.code != http.StatusOK && a.code != http.StatusNotFound {
			t.Errorf("%d is text: %q", a.code, body)
		}
	case "":
		if len(body) > 0 {
			t.Errorf("%d has a body of no type: %q", a.code, body)
		}
	default:
		t.Errorf("%d is of the type %s", a.code, media)
	}
}

// checkFailure requires a Status with the code of the answer, except for the list
// of paths that answers an unknown one.
func checkFailure(t *testing.T, code int, value tree) {
	t.Helper()
	if code < http.StatusBadRequest || code == http.StatusNotFound && value["paths"] != nil {
		return
	}
	if got, _ := value.at("code").(float64); value.text("kind") != "Status" || value.text("status") != "Failure" ||
		int(got) != code || value.text("message") == "" {
		t.Errorf("%d is answered with %v", code, value)
	}
}

// FuzzRequest gives any request to a server that holds a ConfigMap a, a
// definition and a Foo f: it answers in the protocol's forms, and serves the next.
func FuzzRequest(f *testing.F) {
	const js, merge = "application/json", "application/merge-patch+json"
	for _, seed := range []struct{ method, target, kind, accept, body string }{
		{"GET", "/api/v1/configmaps?limit=1&resourceVersion=0", "", "", ""},
		{"GET", configMaps + "?watch=1&allowWatchBookmarks=true&labelSelector=x", "", js + ";stream=watch", ""},
		{
			"GET", configMaps + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=1000000001",
			"", "", "",
		},
		{"GET", configMaps + delta + "1000000001&bookmarkIntervalSeconds=1&timeoutSeconds=1", "", "", ""},
		{
			"GET",
			configMaps + "?shardSelector=shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')&limit=1", "",
			"", "",
		},
		{
			"GET", configMaps + "?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTAwMDAwMDAwNSwic3RhcnQiOiJhXHUwMDAwIn0&limit=3",
			"", "", "",
		},
		{
			"GET", configMaps + "?fieldSelector=metadata.name%3Da,metadata.namespace!%3Db&timeoutSeconds=1", "",
			strings.TrimPrefix(acceptTable, "Accept: "), "",
		},
		{"POST", configMaps, js, "application/yaml", configMapBody("b", "1")},
		{
			"POST", configMaps + "?dryRun=All&fieldValidation=Strict", "application/yaml", "",
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  generateName: a-\n",
		},
		{
			"POST", configMaps, "application/vnd.kubernetes.protobuf", "",
			"k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x05\n\x03\n\x01b",
		},
		{"PUT", configMaps + "/a", js, "", configMapBody("a", "2")},
		{"PATCH", configMaps + "/a", merge, "", `{"metadata":{"labels":{"x":null}}}`},
		{"PATCH", configMaps + "/a", "application/json-patch+json", "", `[{"op":"copy","from":"/data","path":"/data/x"}]`},
		{
			"PATCH", configMaps + "/a", "application/strategic-merge-patch+json", "",
			`{"$patch":"replace","data":{"$retainKeys":["x"]}}`,
		},
		{"DELETE", configMaps + "/a?propagationPolicy=Foreground&gracePeriodSeconds=0", js, "", `{"preconditions":{"uid":"x"}}`},
		{"DELETE", configMaps + "?labelSelector=x%3D1", "", "", ""},
		{"POST", definitions, js, "", definitionBody(true, true, true)},
		{
			"PATCH", definitions + "/foos.t.example.com", merge, "",
			`{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",` +
				`"x-kubernetes-validations":[{"rule":"self.a == 1"}]}}}]}}`,
		},
		{"PATCH", foos + "/f", merge, "", `{"spec":{"a":"2"},"metadata":{"finalizers":["a/b"]}}`},
		{
			"POST", "/api/v1/namespaces/default/pods", js, "",
			`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		},
		{"PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale", js, "", `{"spec":{"replicas":3}}`},
		{"GET", "/apis", "", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", ""},
		{"GET", "/readyz?verbose&exclude=etcd", "", "", ""},
		{"DELETE", "/api/v1/namespaces/kube-public", "", "", ""},
		{"OPTIONS", "/api/%2e%2e/v1//../configmaps", "", "*/*;q=0", ""},
	} {
		f.Add(seed.method, seed.target, seed.kind, seed.accept, []byte(seed.body))
	}
	f.Fuzz(func(t *testing.T, method, target, contentType, accept string, body []byte) {
		r, ok := parseRequest(method, target, contentType, accept, body)
		if !ok {
			return
		}
		a := assemble(t, revlog.Options{Memory: true})
		for path, object := range map[string]string{
			configMaps:  configMapBody("a", "1"),
			definitions: definitionBody(true, true, true),
		} {
			prepare(t, a, path, object)
		}
		prepare(t, a, foos, `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"f"},"spec":{"a":"1"}}`)
		if answer, cut := serveOne(t, a.handler, r); !cut {
			checkAnswer(t, answer)
		}
		next, _ := parseRequest("GET", "/api/v1/namespaces", "", "", nil)
		if answer, _ := serveOne(t, a.handler, next); answer.code != http.StatusOK {
			t.Errorf("the next request gives %d: %s", answer.code, answer.body.String())
		}
	})
}

// prepare creates an object.
func prepare(t *testing.T, a *assembled, path, object string) {
	t.Helper()
	r, _ := parseRequest(http.MethodPost, path, "application/json", "", []byte(object))
	if answer, _ := serveOne(t, a.handler, r); answer.code != http.StatusCreated {
		t.Fatalf("prepare %s: %d: %s", object, answer.code, answer.body.String())
	}
}
