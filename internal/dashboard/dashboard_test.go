package dashboard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/dashboard"
)

// serve serves a dashboard over an API that knows nobody, and notes whether it was asked.
func serve(t *testing.T, open func(*http.Request) *http.Request) (url string, asked *bool) {
	t.Helper()
	asked = new(bool)
	d, err := dashboard.New(dashboard.Config{
		Open: open,
		Resources: func() []dashboard.Resource {
			return []dashboard.Resource{{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true}}
		},
		API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			*asked = true
			w.WriteHeader(http.StatusUnauthorized)
		}),
	})
	if err != nil {
		t.Fatalf("make a dashboard: %v", err)
	}
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	return s.URL, asked
}

// get sends a request with headers, each "Name: value".
func get(t *testing.T, method, url string, headers ...string) (code int, header http.Header, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
		if name == "Host" {
			r.Host = value
		}
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := c.Do(r)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return got.StatusCode, got.Header, string(text)
}

func TestPagesOfOtherSitesGetNothing(t *testing.T) {
	url, asked := serve(t, func(r *http.Request) *http.Request { return r })
	for _, header := range []string{
		"Host: attacker.example:6450", "Origin: https://attacker.example", "Origin: null", "Sec-Fetch-Site: cross-site",
		"Sec-Fetch-Site: same-site",
	} {
		if code, _, _ := get(t, "GET", url+"/", header); code != http.StatusForbidden || *asked {
			t.Errorf("%s: %d, and the API is asked: %v", header, code, *asked)
		}
	}
	code, header, _ := get(t, "GET", url+"/", "Host: localhost:1")
	if code == http.StatusForbidden || !*asked {
		t.Errorf("from localhost: %d", code)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
			"img-src 'self' data:;",
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
	} {
		if value := header.Get(name); !strings.HasPrefix(value, want) {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
}

func TestNothingButGetIsServedWithoutCredentials(t *testing.T) {
	url, asked := serve(t, func(r *http.Request) *http.Request { return r })
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, path := range []string{"/", "/timeline", "/object", "/login", "/logout"} {
			if code, _, _ := get(t, method, url+path); code < 400 || *asked {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
}

func TestWhoIsNotKnownGetsTheFormToLogIn(t *testing.T) {
	url, _ := serve(t, nil)
	for _, path := range []string{
		"/", "/timeline", "/object?r=pods.v1&ns=a&name=b", "/object.yaml", "/between?a=1&b=2", "/live",
		"/blame?r=pods.v1&ns=a&name=b",
	} {
		code, _, body := get(t, "GET", url+path)
		if code != http.StatusUnauthorized || !strings.Contains(body, `action="/login"`) {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// TestTheOverviewSaysHowTheDiskDoes to those who may see the status.
func TestTheOverviewSaysHowTheDiskDoes(t *testing.T) {
	for _, c := range []struct {
		status      string
		code        int
		says, hides string
	}{
		{
			`{"storage":{"freeBytes":40000000000,"fileSystemBytes":100000000000}}`, 200,
			"<li><strong>40.0 GB</strong> of the disk free", "writes",
		},
		{
			`{"storage":{"freeBytes":4000000,"fileSystemBytes":100000000000,"readOnly":"<full>"}}`, 200,
			`<li class="bad"><strong>4.0 MB</strong> of the disk free</li>` + "\n" +
				`<li class="bad">takes no writes: &lt;full&gt;</li>`, "lost",
		},
		{
			`{"storage":{"lost":"fsync failed","readOnly":"fsync failed"}}`, 200, "writes may be lost: fsync failed",
			"takes no writes",
		},
		{`{"storage":{}}`, 200, "0</strong> watches", "disk"},
		{`{"message":"who watches: no"}`, 403, "0</strong> objects", "disk"},
		{`{"message":"there is none"}`, 404, "0</strong> watches", "disk"},
	} {
		d, err := dashboard.New(dashboard.Config{
			Open: func(r *http.Request) *http.Request { return r }, StatusPath: "/status",
			Resources: func() []dashboard.Resource { return nil }, Watches: func() []dashboard.Watch { return nil },
			API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.status)
			}),
		})
		if err != nil {
			t.Fatalf("make a dashboard: %v", err)
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
		_, text, _ := strings.Cut(w.Body.String(), `class="facts"`)
		if text, _, _ = strings.Cut(text, "</ul>"); !strings.Contains(text, c.says) || strings.Contains(text, c.hides) {
			t.Errorf("%s: with %q and without %q, got\n%s", c.status, c.says, c.hides, text)
		}
	}
}
