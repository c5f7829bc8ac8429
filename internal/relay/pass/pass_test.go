package pass_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/relay/pass"
)

// tell answers with all that arrived, and with all that an answer can have.
func tell(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	h := w.Header()
	h["Warning"] = []string{`299 - "deprecated"`, `299 - "unknown field"`}
	h["Content-Type"] = []string{"application/vnd.kubernetes.protobuf"}
	h["Audit-Id"], h["X-Kubernetes-Pf-Flowschema-Uid"] = []string{"id"}, []string{"u"}
	h["Retry-After"], h["Content-Encoding"], h["Trailer"] = []string{"7"}, []string{"gzip"}, []string{"X-Declared"}
	code, _ := strconv.Atoi(r.Header.Get("X-Want"))
	w.WriteHeader(code)
	delete(r.Header, "X-Forwarded-For") // differs
	names := slices.Sorted(maps.Keys(r.Header))
	fmt.Fprintf(w, "%s %s %d\n", r.Method, r.RequestURI, len(body))
	for _, name := range names {
		fmt.Fprintf(w, "%s: %q\n", name, r.Header[name])
	}
	_, _ = w.Write(body)
	h["X-Declared"] = []string{"a trailer"}
	h.Set(http.TrailerPrefix+"X-Late", "another one")
}

// TestRequestsAndAnswersPassAsTheyAre compares with the same requests without a relay.
func TestRequestsAndAnswersPassAsTheyAre(t *testing.T) {
	server, cfg := foreign(t, tell)
	_, front := inFront(t, pass.Config{Upstream: cfg})
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		direct, relayed := server.Client(t, proto), front.Client(t, proto)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			for path, code := range map[string]string{
				"/api/v1/namespaces/a/pods/b/log?follow=true&tailLines=3": "200",
				"/x/a%2Fb/%C3%A4?fieldSelector=a%3Db;c&&=&watch":          "409",
				"//double/../dots/": "422",
				"/":                 "500",
				"/none":             "404",
				"/later":            "429",
				"/away":             "503",
			} {
				body := strings.Repeat("x\x00\xff", 1000)
				if method == "GET" || method == "HEAD" {
					body = ""
				}
				headers := []string{
					"X-Want", code, "Authorization", "Bearer token", "Impersonate-User", "other", "Impersonate-Extra-A%2fb", "c",
					"Accept-Encoding", "gzip",
					"Accept", "application/json;as=Table", "Content-Type", "application/strategic-merge-patch+json", "User-Agent",
					"kubectl", "X-Multi", "1", "X-Multi", "2", "If-Match", `"3"`,
				}
				want := get(t, direct, method+" "+server.URL+path, body, headers...)
				got := get(t, relayed, method+" "+front.URL+path, body, headers...)
				if diff := cmp.Diff(want.body, got.body); diff != "" {
					t.Fatalf("%s %s %s:\n%s", proto, method, path, diff)
				}
				for _, h := range []http.Header{want.header, got.header} {
					h.Del("Date")
					h.Del("Content-Length") // not beside trailers in HTTP/1.1; the bodies were compared
				}
				if diff := cmp.Diff(want.header, got.header); diff != "" || got.code != want.code {
					t.Fatalf("%s %s %s: %d\n%s", proto, method, path, got.code, diff)
				}
				if diff := cmp.Diff(want.trailer, got.trailer); diff != "" {
					t.Fatalf("%s %s %s: trailers\n%s", proto, method, path, diff)
				}
			}
		}
	}
}

func TestUpstreamLearnsTheAddressOfTheClient(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"], r.Header["Forwarded"])
	})
	_, front := inFront(t, pass.Config{Upstream: cfg})
	for want, headers := range map[string][]string{
		"[127.0.0.1][][]": nil,
		"[192.0.2.1, 127.0.0.1][http][for=any]": {
			"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "http", "Forwarded", "for=any",
		},
	} {
		if got := get(t, front.Client(t, "HTTP/2"), "GET "+front.URL, "",
			headers...); strings.ReplaceAll(got.body, "] [", "][") != want {
			t.Errorf("%v: %s, want %s", headers, got.body, want)
		}
	}
}

// TestNobodyIsTheUserAgentOfOthers: upstream makes the field manager of it.
func TestNobodyIsTheUserAgentOfOthers(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.Header["User-Agent"]) })
	cfg.UserAgent = "gapless-relay/1"
	for _, certified := range []func(*http.Request) (user.Info, error){
		nobody, func(*http.Request) (user.Info, error) { return jane(), nil },
	} {
		_, front := inFront(t, pass.Config{Upstream: cfg, Certificate: certified})
		for agent, want := range map[string]string{"": "[]", "curl/8": `["curl/8"]`} {
			for _, token := range []string{"", "Bearer x"} {
				headers := []string{"User-Agent", agent}
				if token != "" {
					headers = append(headers, "Authorization", token)
				}
				if got := get(t, front.Client(t, "HTTP/2"), "POST "+front.URL+"/api", "{}", headers...); got.body != want {
					t.Errorf("%q is passed on as %s, want %s", agent, got.body, want)
				}
			}
		}
	}
}

// TestABodyThatIsNoneIsTheClientsError has chunks that are not.
func TestABodyThatIsNoneIsTheClientsError(t *testing.T) {
	_, cfg := foreign(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	_, front := inFront(t, pass.Config{Upstream: cfg})
	_, _, resp := dialFront(t, front.Listener.Addr().String(),
		"POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\nnone\r\n")
	if resp.code != http.StatusBadRequest || !strings.Contains(resp.body, "invalid byte in chunk length") ||
		resp.header.Get("Retry-After") != "" {
		t.Errorf("it is answered %d %s", resp.code, resp.body)
	}
}

// TestBodiesAreStreamed sends a part only after the one before it has come back.
func TestBodiesAreStreamed(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && r.ProtoMajor == 1 {
			t.Error(err)
		}
		part := make([]byte, 4)
		for {
			if _, err := io.ReadFull(r.Body, part); err != nil {
				return
			}
			_, _ = w.Write(part)
			_ = http.NewResponseController(w).Flush()
		}
	})
	_, front := inFront(t, pass.Config{Upstream: cfg})
	reader, writer := io.Pipe()
	go func() { _, _ = writer.Write([]byte("1st.")) }() // ends when it is read
	resp, err := send(t, front.Client(t, "HTTP/2"), "POST "+front.URL, reader)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	part, got := make([]byte, 4), ""
	for _, next := range []string{"2nd.", "3rd.", ""} {
		if _, err := io.ReadFull(resp.Body, part); err != nil {
			t.Fatalf("read: %v", err)
		}
		got += string(part)
		_, _ = io.WriteString(writer, next) // an error shows in what comes back
	}
	if got != "1st.2nd.3rd." {
		t.Errorf("%q came back", got)
	}
	_ = writer.Close()
}

func TestALargeBodyPasses(t *testing.T) {
	const size = 16 << 20
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v", n, err)
	})
	_, front := inFront(t, pass.Config{Upstream: cfg})
	resp, err := send(t, front.Client(t, "HTTP/1.1"), "PUT "+front.URL, io.LimitReader(zeros{}, size))
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != fmt.Sprintf("%d %v", size, nil) {
		t.Errorf("%s, %v", got, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// refusing fails the test if it is read.
type refusing struct{ t *testing.T }

func (r refusing) Read([]byte) (int, error) {
	r.t.Error("the body was sent, and upstream had refused the request")
	return 0, io.ErrUnexpectedEOF
}

func TestABodyWaitsForUpstream(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})
	_, front := inFront(t, pass.Config{Upstream: cfg})
	client := front.Client(t, "HTTP/1.1") // waits as long as it takes
	resp, err := send(t, client, "POST "+front.URL+"/no", refusing{t}, "Expect", "100-continue")
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
	if resp := get(t, client, "POST "+front.URL+"/yes", "body", "Expect", "100-continue"); resp.body != "body" ||
		resp.code != http.StatusOK {
		t.Errorf("%d %s", resp.code, resp.body)
	}
}

func TestHalfAnAnswerDoesNotLookComplete(t *testing.T) {
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, "half of ")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, front := inFront(t, pass.Config{Upstream: cfg})
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, path := range []string{"/length", "/chunks"} {
			resp, err := send(t, front.Client(t, proto), "GET "+front.URL+path, nil)
			if err != nil {
				t.Fatalf("send: %v", err)
			}
			if got, err := io.ReadAll(resp.Body); err == nil || string(got) != "half of " {
				t.Errorf("%s %s: %q, %v", proto, path, got, err)
			}
			_ = resp.Body.Close()
		}
	}
}

func TestAClientThatLeavesCancelsTheRequest(t *testing.T) {
	began, left := make(chan struct{}), make(chan struct{})
	_, cfg := foreign(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/answering" {
			_ = http.NewResponseController(w).Flush()
		}
		began <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	})
	_, front := inFront(t, pass.Config{Upstream: cfg})
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, path := range []string{"/answering", "/silent"} {
			client := front.Client(t, proto)
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+path, nil)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			ended := make(chan struct{})
			go func() { // ends with leave
				defer close(ended)
				if resp, err := client.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			<-began
			leave()
			<-left
			<-ended
		}
	}
}

// TestAnUpstreamThatIsAwayIsSaid has upstreams of which none answers, for different reasons.
func TestAnUpstreamThatIsAwayIsSaid(t *testing.T) {
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	nothing := &rest.Config{Host: "https://" + closed.Addr().String()}
	_ = closed.Close()
	_, broken := foreign(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	_, stranger := foreign(t, tell)
	stranger.CAData = nil
	for name, c := range map[string]struct {
		cfg         *rest.Config
		text        string
		retry, sent string // Retry-After, of a read and of a write
	}{
		"nobody listens": {
			nothing,
			"cannot be reached: dial tcp " + strings.TrimPrefix(nothing.Host, "https://") + ": connect: connection refused", "1",
			"1",
		},
		"another certificate":   {stranger, "cannot be reached: tls: failed to verify certificate", "1", "1"},
		"the connection breaks": {broken, "did not answer", "1", ""},
	} {
		_, front := inFront(t, pass.Config{Upstream: c.cfg})
		for method, retry := range map[string]string{"GET": c.retry, "POST": c.sent} {
			resp := get(t, front.Client(t, "HTTP/2"), method+" "+front.URL+"/api", "", "Authorization", "Bearer x")
			host := strings.TrimPrefix(c.cfg.Host, "https://")
			if resp.code != http.StatusServiceUnavailable || resp.header.Get("Retry-After") != retry ||
				!strings.Contains(resp.body, c.text) || !strings.Contains(resp.body, host) ||
				!strings.Contains(resp.body, `"kind":"Status"`) {
				t.Errorf("%s: %s is answered %d, Retry-After %q: %s",
					name, method, resp.code, resp.header.Get("Retry-After"), resp.body)
			}
			if said := strings.Contains(resp.body, "may have been carried out"); said != (retry == "") {
				t.Errorf("%s: %s: %s", name, method, resp.body)
			}
		}
	}
}

func TestARelayThatImpersonatesItselfIsRefused(t *testing.T) {
	cfg := &rest.Config{Host: "https://127.0.0.1:1", Impersonate: rest.ImpersonationConfig{UserName: "other"}}
	if _, err := pass.New(pass.Config{
		Upstream: cfg, Certificate: nobody,
	}); err == nil || !strings.Contains(err.Error(), "other") {
		t.Error(err)
	}
}
