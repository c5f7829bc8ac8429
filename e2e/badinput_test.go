package e2e_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless"
)

// badInput is an invalid request, and the Status of its response.
type badInput struct {
	name    string
	request string
	code    int
	reason  string
	message string // a part of it
}

// request is the bytes of a request; headers are "Name: value".
func request(method, target, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: gapless\r\nUser-Agent: test\r\n", method, target)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return b.String() + "\r\n" + body
}

// post creates in the configmaps of default.
func post(body string, headers ...string) string {
	return request(http.MethodPost, configMaps, body, append([]string{"Content-Type: application/json"}, headers...)...)
}

// wireOf is a TLS connection for raw bytes.
type wireOf struct {
	t     testing.TB
	conn  *tls.Conn
	lines *bufio.Reader
}

func (l *launched) dial(t testing.TB, cfg *tls.Config) *wireOf {
	t.Helper()
	cfg.NextProtos = []string{"http/1.1"}
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", strings.TrimPrefix(l.URL(), "https://"))
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	return &wireOf{t: t, conn: conn.(*tls.Conn), lines: bufio.NewReader(conn)}
}

// exchange sends bytes and reads one response. A server that refuses a large body
// responds while the body is being sent, and reads no more of it.
func (w *wireOf) exchange(method, bytes string) (r reply, closed bool) {
	w.t.Helper()
	sent := make(chan struct{})
	go func() { // ends with the writing, which ends with the connection
		defer close(sent)
		_, _ = io.WriteString(w.conn, bytes)
	}()
	resp, err := http.ReadResponse(w.lines, &http.Request{Method: method})
	if err != nil {
		w.t.Fatalf("read the answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		w.t.Fatalf("read the body of the answer: %v", err)
	}
	if resp.Close {
		_ = w.conn.Close() // the server's half is closed already
	}
	<-sent
	return reply{code: resp.StatusCode, header: resp.Header, body: body}, resp.Close
}

// send exchanges bytes on a connection; the server, and the connection if it was
// not closed in good order, must live on.
func (l *launched) send(t testing.TB, method, bytes string) reply {
	t.Helper()
	w := l.dial(t, l.tlsConfig())
	r, closed := w.exchange(method, bytes)
	if closed {
		w = l.dial(t, l.tlsConfig())
	}
	if next, _ := w.exchange(http.MethodGet, request(http.MethodGet, configMaps+"?limit=1", "")); next.code != http.StatusOK {
		t.Errorf("the next request gives %d: %s", next.code, next.body)
	}
	if err := w.conn.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	return r
}

// TestBadInputGetsStatusAndChangesNothing sends invalid requests. None
// of them may change an object.
func TestBadInputGetsStatusAndChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	w := launchHistory(t)
	c := w.caller(t, http2)
	w.moments["token"] = url.QueryEscape(c.must(http.StatusOK, http.MethodGet, allConfigMaps+"?limit=1", "").text("metadata",
		"continue"))
	before := string(c.do(http.MethodGet, allConfigMaps, "").body)
	for group, inputs := range map[string][]badInput{
		"query": badQueries(), "path": badPaths(), "method": badMethods(), "header": badHeaders(),
		"body": badBodies(), "delete": badDeletes(), "patch": badPatches(),
	} {
		for _, in := range inputs {
			t.Run(group+"/"+in.name, func(t *testing.T) {
				bytes := w.in(in.request)
				method, _, _ := strings.Cut(bytes, " ")
				r := w.send(t, method, bytes)
				checkStatus(t, w, listRow{code: in.code, reason: in.reason, message: in.message}, r)
			})
		}
	}
	if after := string(c.do(http.MethodGet, allConfigMaps, "").body); after != before {
		t.Errorf("bad input has changed the state from\n%s\nto\n%s", before, after)
	}
}

// TestInvalidHTTPOnlyClosesItsConnection sends what is no HTTP; the
// protocol's own answer is no Status.
func TestInvalidHTTPOnlyClosesItsConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	l := launch(t, gapless.Config{})
	for name, in := range map[string]struct {
		bytes string
		code  int
	}{
		"garbage":           {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", http.StatusBadRequest},
		"words":             {"hello there general kenobi\r\n\r\n", http.StatusBadRequest},
		"no host":           {"GET /version HTTP/1.1\r\n\r\n", http.StatusBadRequest},
		"two hosts":         {"GET /version HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", http.StatusBadRequest},
		"version":           {"GET /version HTTP/7.3\r\nHost: a\r\n\r\n", http.StatusHTTPVersionNotSupported},
		"header":            {"GET /version HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", http.StatusBadRequest},
		"header with NUL":   {"GET /version HTTP/1.1\r\nHost: a\r\nX-A: a\x00b\r\n\r\n", http.StatusBadRequest},
		"length":            {"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n", http.StatusBadRequest},
		"negative length":   {"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", http.StatusBadRequest},
		"transfer encoding": {"POST /version HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", http.StatusNotImplemented},
		"large header": {
			"GET /version HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
			http.StatusRequestHeaderFieldsTooLarge,
		},
		"escape":            {"GET /api/v1/%zz HTTP/1.1\r\nHost: a\r\n\r\n", http.StatusBadRequest},
		"NUL in the path":   {"GET /api/v1/\x00 HTTP/1.1\r\nHost: a\r\n\r\n", http.StatusBadRequest},
		"space in the path": {"GET /api/v1/a b HTTP/1.1\r\nHost: a\r\n\r\n", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			if r := l.send(t, http.MethodGet, in.bytes); r.code != in.code {
				t.Errorf("code %d, want %d: %s", r.code, in.code, r.body)
			}
		})
	}
}

// TestInvalidHTTP2OnlyClosesItsConnection sends what is no HTTP/2.
func TestInvalidHTTP2OnlyClosesItsConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	l := launch(t, gapless.Config{})
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	var ends sync.WaitGroup
	for name, bytes := range map[string]string{
		"no preface":        "GET /version HTTP/1.1\r\nHost: a\r\n\r\n",
		"no settings":       preface + "\x00\x00\x00\x00\x00\x00\x00\x00\x01",
		"frame over limit":  preface + settings + "\xff\xff\xff\x00\x00\x00\x00\x00\x01",
		"headers that lie":  preface + settings + "\x00\x00\x03\x01\x05\x00\x00\x00\x01\xff\xff\xff",
		"data of nothing":   preface + settings + "\x00\x00\x01\x00\x00\x00\x00\x00\x07x",
		"even stream":       preface + settings + "\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82",
		"window that grows": preface + settings + "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
	} {
		dialer := &tls.Dialer{Config: l.tlsConfig()}
		dialer.Config.NextProtos = []string{"h2"}
		ends.Go(func() { // side by side, because the server takes a second for a good-bye
			conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(l.URL(), "https://"))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if _, err := io.WriteString(conn, bytes); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			_, _ = io.Copy(io.Discard, conn) // the server ends it, in good order or not
			_ = conn.Close()
		})
	}
	ends.Wait()
	if r := l.send(t, http.MethodGet, request(http.MethodGet, "/version", "")); r.code != http.StatusOK {
		t.Errorf("the next request gives %d %s", r.code, r.body)
	}
}

// TestTruncatedRequestIsNotServed cuts connections in the middle of a request.
func TestTruncatedRequestIsNotServed(t *testing.T) {
	t.Parallel()
	l := launch(t, gapless.Config{})
	c := l.caller(t, http1)
	before := c.current()
	whole := post(configMapBody("half", strings.Repeat("x", 40)))
	for _, n := range []int{1, 20, len(whole) / 2, len(whole) - 1} {
		w := l.dial(t, l.tlsConfig())
		if _, err := io.WriteString(w.conn, whole[:n]); err != nil {
			t.Fatalf("write: %v", err)
		}
		if err := w.conn.Close(); err != nil {
			t.Fatalf("close conn: %v", err)
		}
	}
	if got := c.current(); got != before {
		t.Errorf("half a request has made a write: %s, before it was %s", got, before)
	}
	if r := l.send(t, http.MethodPost, whole); r.code != http.StatusCreated {
		t.Errorf("the whole request gives %d: %s", r.code, r.body)
	}
}

func TestAnonymousClientsSeeOnlyHealthAndVersion(t *testing.T) {
	t.Parallel()
	l := launch(t, gapless.Config{})
	stranger := l.tlsConfig()
	stranger.Certificates = nil
	other := launch(t, gapless.Config{}).tlsConfig() // has another CA
	wrong := l.tlsConfig()
	wrong.Certificates = other.Certificates
	for target, code := range map[string]int{
		"/version": 200, "/livez": 200, "/readyz": 200, "/healthz": 200, "/livez/ping": 200,
		"/": 401, "/api": 401, "/apis": 401, "/metrics": 401, "/openapi/v3": 401, "/nowhere": 401, "/version/../api": 401,
		configMaps: 401, configMaps + "?watch=1": 401, "/gapless/v1/compact": 401, "/version/api": 401,
	} {
		r, _ := l.dial(t, stranger.Clone()).exchange(http.MethodGet, request(http.MethodGet, target, ""))
		if r.code != code {
			t.Errorf("%s gives a stranger %d: %s", target, r.code, r.body)
		}
		if code == http.StatusUnauthorized {
			if s := r.tree(t); s.text("kind") != "Status" || s.text("reason") != "Unauthorized" ||
				s.text("message") != "Unauthorized" {
				t.Errorf("%s: %s", target, r.body)
			}
		}
	}
	r, _ := l.dial(t, stranger).exchange(http.MethodGet, request(http.MethodGet, configMaps, "", "Authorization: Bearer x"))
	if r.code != http.StatusUnauthorized {
		t.Errorf("a token gives %d", r.code)
	}
	w := l.dial(t, wrong)
	if _, err := io.WriteString(w.conn, request(http.MethodGet, configMaps, "")); err == nil {
		if first, err := w.lines.ReadByte(); err == nil {
			t.Errorf("a certificate of another CA is answered with %q…", first)
		}
	}
}

// TestInvalidCustomResourcesGetStatus sends what only custom resources refuse.
func TestInvalidCustomResourcesGetStatus(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	w := launchHistory(t)
	c := w.caller(t, http2)
	c.define(true, true, true)
	c.foo("f", "1")
	before := string(c.do(http.MethodGet, foos, "").body)
	with := func(method, path, body, media string) string {
		return request(method, path, body, "Content-Type: "+media)
	}
	const js = "application/json"
	for _, in := range []badInput{
		{
			name: "no kind", request: with("POST", foos, `{"apiVersion":"t.example.com/v1","metadata":{"name":"t"}}`, js),
			code: 400, reason: "BadRequest", message: "the object provided is unrecognized",
		},
		{
			name: "truncated", request: with("POST", foos, `{"apiVersion":"t.exa`, js), code: 400, reason: "BadRequest",
			message: "the object provided is unrecognized",
		},
		{name: "null", request: with("POST", foos, `null`, js), code: 400, reason: "BadRequest", message: ""},
		{
			name:    "other kind",
			request: with("POST", foos, `{"apiVersion":"t.example.com/v1","kind":"Bar","metadata":{"name":"t"}}`, js), code: 422,
			reason: "Invalid", message: `kind: Invalid value: "Bar": must be Foo`,
		},
		{
			name:    "other version",
			request: with("POST", foos, `{"apiVersion":"t.example.com/v2","kind":"Foo","metadata":{"name":"t"}}`, js), code: 400,
			reason:  "BadRequest",
			message: "the API version in the data (t.example.com/v2) does not match the expected API version (t.example.com/v1)",
		},
		{
			name: "other type",
			request: with("POST",
				foos, `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"t"},"spec":{"a":7}}`, js), code: 422,
			reason: "Invalid", message: "spec.a",
		},
		{
			name: "huge number",
			request: with("POST",
				foos, `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"t"},"spec":{"a":1e999}}`, js), code: 400,
			reason: "BadRequest", message: "",
		},
		{
			name: "metadata", request: with("POST", foos, `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":7}`, js),
			code: 400, reason: "BadRequest", message: "",
		},
		{
			name: "deep",
			request: with("POST", foos,
				`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"t"},"spec":`+strings.Repeat(`{"a":`,
					50_000)+"1"+strings.Repeat("}", 50_001), js), code: 400, reason: "BadRequest", message: "",
		},
		{
			name: "unknown field",
			request: with("POST", foos+"?fieldValidation=Strict",
				`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"t"},"spec":{"zz":7}}`, js), code: 400,
			reason: "BadRequest", message: `unknown field "spec.zz"`,
		},
		{
			name: "protobuf", request: with("POST", foos, "k8s\x00", "application/vnd.kubernetes.protobuf"), code: 415,
			reason: "UnsupportedMediaType", message: "",
		},
		{
			name: "strategic patch", request: with("PATCH", foos+"/f", `{}`, "application/strategic-merge-patch+json"), code: 415,
			reason: "UnsupportedMediaType", message: "application/merge-patch+json",
		},
		{
			name: "patch to another type", request: with("PATCH", foos+"/f", `{"spec":{"a":7}}`, "application/merge-patch+json"),
			code: 422, reason: "Invalid", message: "spec.a",
		},
		{
			name:    "update without a resource version",
			request: with("PUT", foos+"/f", `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"f"}}`, js),
			code:    422, reason: "Invalid",
			message: "metadata.resourceVersion: Invalid value: 0: must be specified for an update",
		},
		{
			name: "stale update",
			request: with("PUT", foos+"/f",
				`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"f","resourceVersion":"7"}}`, js), code: 409,
			reason: "Conflict", message: "the object has been modified",
		},
		{
			name: "update of another",
			request: with("PUT", foos+"/f",
				`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"g","resourceVersion":"7"}}`, js), code: 400,
			reason: "BadRequest", message: "the name of the object (g) does not match the name on the URL (f)",
		},
		{
			name: "update of nothing",
			request: with("PUT", foos+"/g",
				`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"g","resourceVersion":"7"}}`, js), code: 404,
			reason: "NotFound", message: `foos.t.example.com "g" not found`,
		},
		{
			name: "unknown field label", request: request("GET", foos+"?fieldSelector=spec.zz%3D1", ""), code: 400,
			reason: "BadRequest", message: "field label not supported: spec.zz",
		},
		{
			name: "definition of nothing",
			request: with("POST", definitions,
				`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"x"}}`, js),
			code: 422, reason: "Invalid", message: "spec",
		},
		{
			name: "definition of another name",
			request: with("POST", definitions,
				strings.Replace(definitionBody(false, false, false), `"foos.t.example.com"`, `"bars.t.example.com"`, 1), js),
			code: 422, reason: "Invalid", message: "metadata.name",
		},
		{
			name: "definition without its storage",
			request: with("PATCH", definitions+"/foos.t.example.com",
				`[{"op":"replace","path":"/spec/versions/0/storage","value":false}]`, "application/json-patch+json"), code: 422,
			reason: "Invalid", message: "spec.versions",
		},
	} {
		t.Run(in.name, func(t *testing.T) {
			bytes := w.in(in.request)
			method, _, _ := strings.Cut(bytes, " ")
			checkStatus(t, w, listRow{code: in.code, reason: in.reason, message: in.message}, w.send(t, method, bytes))
		})
	}
	if after := string(c.do(http.MethodGet, foos, "").body); after != before {
		t.Errorf("bad input has changed the state from\n%s\nto\n%s", before, after)
	}
}

// TestUnservedPathsAreNotFound has upstream's texts outside of /api and /apis, which are no Status.
func TestUnservedPathsAreNotFound(t *testing.T) {
	t.Parallel()
	l := launch(t, gapless.Config{})
	for target, text := range map[string]string{
		"/api/v1/namespaces/default/unicorns":   "unicorns is not served in v1",
		"/apis/nobody.example.com/v1/things":    "the API group nobody.example.com is not served",
		configMaps + "/a/status":                "configmaps/status is not served in v1",
		"/api/v1/namespaces/default/namespaces": "namespaces are in no namespace", "/api/v9/configmaps": "v9 is not served",
		"/nowhere": `"paths"`, "/livez/nothing": "404 page not found",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPut} {
			if method == http.MethodPut && !strings.HasPrefix(target, "/api") {
				continue
			}
			if r := l.send(t, method, request(method, target, "")); r.code != http.StatusNotFound ||
				!strings.Contains(string(r.body), text) {
				t.Errorf("%s %s gives %d: %s", method, target, r.code, r.body)
			}
		}
	}
}

// TestUnusualBodiesAreAcceptedAsUpstreamDoes writes what is odd, but good enough.
func TestUnusualBodiesAreAcceptedAsUpstreamDoes(t *testing.T) {
	t.Parallel()
	l := launch(t, gapless.Config{})
	r := l.send(t, http.MethodPost, post(`{"metadata":{"name":"a"},"data":{"x":"1","x":"2"},"zz":1}`))
	if o := r.tree(t); r.code != http.StatusCreated || o.text("data", "x") != "2" || o.text("kind") != "ConfigMap" {
		t.Errorf("a field twice gives %d: %s", r.code, r.body)
	}
	if got := fmt.Sprint(
		r.header.Values("Warning")); got != `[299 - "duplicate field \"data.x\"" 299 - "unknown field \"zz\""]` &&
		got != `[299 - "unknown field \"zz\"" 299 - "duplicate field \"data.x\""]` {
		t.Errorf("warnings are %s", got)
	}
	r = l.send(t, http.MethodPost, post("{\"metadata\":{\"name\":\"b\"},\"data\":{\"x\":\"\xff\xfe\"}}"))
	if o := r.tree(t); r.code != http.StatusCreated || o.text("data", "x") != "\ufffd\ufffd" {
		t.Errorf("broken runes give %d: %s", r.code, r.body)
	}
	r = l.send(t, http.MethodPost,
		request(http.MethodPost, configMaps, "", "Content-Type: application/json", "Transfer-Encoding: chunked")+
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(configMapBody("c", "1")), configMapBody("c", "1")))
	if r.code != http.StatusCreated {
		t.Errorf("a body in chunks gives %d: %s", r.code, r.body)
	}
	r = l.send(t, http.MethodPatch,
		request(http.MethodPatch, configMaps+"/c", "null", "Content-Type: application/json-patch+json"))
	if r.code != http.StatusOK {
		t.Errorf("no steps at all give %d: %s", r.code, r.body)
	}
}
