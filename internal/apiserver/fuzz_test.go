package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// hall is a handler without sockets whose caller is the administrator, over the
// real verbs; watches end at once.
type hall struct {
	handler http.Handler
	log     *bytes.Buffer // panics and worse
}

func openHall(t testing.TB) *hall {
	t.Helper()
	h := &hall{log: new(bytes.Buffer)}
	live := kinds.NewLive(builtin.Catalog())
	reg := openRegistry(t, live)
	h.handler = apiserver.New(t.Context(), apiserver.Config{
		Reader: &reader{Reader: reg, watch: func(context.Context, wire.ListOptions) (wire.Watch, error) {
			return nil, &kube.ExpiredError{Requested: 1, Oldest: 2, Kind: kube.ExpiredWatch}
		}},
		Writer: reg, Live: live,
		Compact: func(context.Context, apiserver.Compaction) (apiserver.Compacted, error) {
			return apiserver.Compacted{UpTo: 7}, nil
		},
		Logger: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	target := kinds.Target{Namespace: "default"}
	target.Resource, _ = live.Load().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	if _, err := reg.Create(t.Context(), target, []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`),
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("create reg: %v", err)
	}
	return h
}

// serve answers a request and checks what every answer has to be.
func (h *hall) serve(t *testing.T, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	admin := &x509.Certificate{Subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}}
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{admin}}}
	h.log.Reset()
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, r)
	if h.log.Len() > 0 {
		t.Fatalf("%s %s: %s", r.Method, r.URL, h.log)
	}
	body := w.Body.Bytes()
	if w.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatalf("make a reader: %v", err)
		}
		if body, err = io.ReadAll(z); err != nil {
			t.Fatalf("read to the end: %v", err)
		}
	}
	media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
	var v struct {
		Kind, Message string
		Code          int
		Paths         any // of the index a list, of OpenAPI an object
	}
	var err error
	switch {
	case len(body) == 0 || media == "text/plain":
		return w
	case media == "application/yaml":
		err = yaml.Unmarshal(body, &v)
	case media == "application/json" && bytes.HasPrefix(body, []byte(`{"type":`)):
		err = json.Unmarshal(body, &struct{ Type string }{})
	case media == "application/json":
		err = json.Unmarshal(body, &v)
	case media == protobufType && w.Header().Get("Content-Type") != media:
		v.Kind, _ = at(readEvent(t, bytes.NewReader(body)), "object", "kind").(string)
	case media == protobufType:
		var text []byte
		if text, err = json.Marshal(envelopeTree(t, body)); err == nil {
			err = json.Unmarshal(text, &v)
		}
	default:
		t.Fatalf("%s %s: content type %q", r.Method, r.URL, media)
	}
	if err != nil {
		t.Fatalf("%s %s: %s: %v", r.Method, r.URL, body, err)
	}
	if w.Code >= 400 && v.Paths == nil && (v.Kind != "Status" || v.Code != w.Code || v.Message == "") {
		t.Fatalf("%s %s: %d %s", r.Method, r.URL, w.Code, body)
	}
	if w.Code == http.StatusInternalServerError {
		t.Fatalf("%s %s: %s", r.Method, r.URL, body)
	}
	return w
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"/", "//", "/api", "/apis//", "/api/v1/", "/api/v1/namespaces/default/configmaps/a", "/api/v1/namespaces/default/status",
		"/api/v1/namespaces/x/finalize",
		"/api/v1/watch/namespaces/default/configmaps/a", "/apis/apps/v1/namespaces/default/deployments/d/scale",
		"/api/v1/namespaces//configmaps",
		"/api/v1/configmaps/%2e%2e", "/api/v1/%00", "/%2f", "/livez/ping", "/readyz/../livez", "/gapless/v1/compact", "/metrics",
		"/version/", "/openapi/v3", "*",
		"/api/v1/namespaces/\xff/pods", "/api/v1/watch", "/api/v1/watch/watch/watch",
	} {
		f.Add("GET", path, "watch=1")
		f.Add("POST", path, "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0")
	}
	f.Add("PATCH", "/api/v1/namespaces/default", "dryRun=All&resourceVersion=0&resourceVersionMatch=Exact")
	f.Add("GET", "/api/v1/configmaps",
		"labelSelector=a+in+(b,c),!d&fieldSelector=metadata.name!=x&sendInitialEvents=&timeoutSeconds=-9223372036854775808")
	f.Add("DELETE", "/api/v1/namespaces/default/configmaps/a", "gracePeriodSeconds=-1&timeout=1ns")
	h := openHall(f)
	f.Fuzz(func(t *testing.T, method, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") && path != "*" {
			return // net/http refuses it
		}
		u.RawQuery = query
		r := &http.Request{
			Method: method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
			Host: "x",
		}
		h.serve(t, r.WithContext(t.Context()))
	})
}

func FuzzAccept(f *testing.F) {
	for _, accept := range []string{
		"", "*/*", "application/*;q=0.1", acceptTable[8:], acceptAggregated[8:], acceptProtobuf[8:], protobufType,
		protobufType + partialsParams, protobufType + ";stream=watch;sv=v1", "application/json;stream=watch",
		"application/yaml;q=2,;;",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", `application/json;as="Table";g="meta.k8s.io";v=v1`,
		"application/json;q=NaN", "a/b;a=b;a=c", protobufType + drops, "application/json;drop=;stream=watch",
		"application/yaml;drop=x" + drops,
	} {
		f.Add(accept, "gzip;q=0, *", "None")
		f.Add(accept, "gzip", "Object")
	}
	h := openHall(f)
	f.Fuzz(func(t *testing.T, accept, encoding, include string) {
		for _, path := range []string{configMaps, configMaps + "/a", configMaps + "?watch=1", "/apis", "/version"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			if include != "" {
				r.URL.RawQuery += "&includeObject=" + url.QueryEscape(include)
			}
			r.Header.Set("Accept", accept)
			r.Header.Set("Accept-Encoding", encoding)
			if w := h.serve(t, r); w.Code != 200 && w.Code != 406 && w.Code != 400 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	})
}

func FuzzBody(f *testing.F) {
	const object = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"}},"data":{"a":"b"}}`
	f.Add("POST", "application/json", []byte(object))
	f.Add("PUT", "application/yaml", []byte("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"))
	f.Add("PUT", "application/vnd.kubernetes.protobuf",
		[]byte("k8s\x00\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01a"))
	f.Add("PATCH", "application/merge-patch+json", []byte(`{"metadata":null}`))
	f.Add("PATCH", "application/json-patch+json", []byte(`[{"op":"move","from":"/metadata","path":"/data"}]`))
	f.Add("PATCH", "application/strategic-merge-patch+json", []byte(`{"metadata":{"$patch":"replace"}}`))
	f.Add("PATCH", "application/apply-patch+yaml", []byte("{}"))
	f.Add("DELETE", "application/json", []byte(`{"kind":"DeleteOptions","preconditions":{"uid":"x"}}`))
	f.Add("DELETE",
		"application/vnd.kubernetes.protobuf", []byte("k8s\x00\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x02\x08\x00"))
	f.Add("DELETE", "application/yaml", []byte("gracePeriodSeconds: -1"))
	f.Add("COMPACT", "application/json", []byte(`{"upTo":"5"}`))
	f.Add("POST", ";", []byte("\x00\xff"))
	h := openHall(f)
	f.Fuzz(func(t *testing.T, method, media string, body []byte) {
		path := configMaps + "/a"
		switch method {
		case "POST":
			path = configMaps
		case "COMPACT":
			method, path = "POST", "/gapless/v1/compact"
		case "PUT", "PATCH", "DELETE":
		default:
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), method, path+"?dryRun=All", bytes.NewReader(body))
		r.Header.Set("Content-Type", media)
		h.serve(t, r)
	})
}
