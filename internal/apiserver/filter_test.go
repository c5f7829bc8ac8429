package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// reader is a Reader of whose verbs a test replaces some.
type reader struct {
	apiserver.Reader

	get   func(ctx context.Context) (*wire.Object, error)
	watch func(ctx context.Context, o wire.ListOptions) (wire.Watch, error)
}

func (r *reader) Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error) {
	if r.get != nil {
		return r.get(ctx)
	}
	return r.Reader.Get(ctx, t, rv)
}

func (r *reader) Watch(ctx context.Context, t kinds.Target, o wire.ListOptions) (wire.Watch, error) {
	if r.watch != nil {
		return r.watch(ctx, o)
	}
	return r.Reader.Watch(ctx, t, o)
}

// user makes a client certificate for name and group, signed by the server's CA.
func (d *testServer) user(dir, name string, groups ...string) tls.Certificate {
	d.t.Helper()
	caPEM, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	if err != nil {
		d.t.Fatalf("read a file: %v", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, "pki", "ca.key"))
	if err != nil {
		d.t.Fatalf("read a file: %v", err)
	}
	ca, err := tls.X509KeyPair(caPEM, keyPEM)
	if err != nil {
		d.t.Fatalf("read the key pair: %v", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		d.t.Fatalf("generate a key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		d.t.Fatalf("create a certificate: %v", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestOnlyHealthAndVersionNeedNoCredentials(t *testing.T) {
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Compact = func(context.Context, apiserver.Compaction) (apiserver.Compacted, error) {
			return apiserver.Compacted{}, errors.New("was called")
		}
		cfg.Backup = func(context.Context, apiserver.Backup, io.Writer) error { return errors.New("was called") }
		cfg.Status = func(context.Context, int) (any, error) { return nil, errors.New("was called") }
	})
	dir := t.TempDir()
	other, err := auth.Open(dir, auth.Options{})
	if err != nil {
		t.Fatalf("open the credentials: %v", err)
	}
	cert, key := other.Admin()
	foreign, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatalf("read the key pair: %v", err)
	}
	stranger := d.client(2)
	for _, path := range []string{
		"/", "/api", "/apis", "/api/v1", configMaps, configMaps + "/a", configMaps + "?watch=1", "/metrics", "/openapi/v3",
		"/gapless/v1/compact", "/gapless/v1/backup", "/gapless/v1/status", "/nope", "/version/x", "/livez/..", "/api/v1/nopes",
		"/livezz",
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			for _, header := range []string{"", "Authorization: Bearer abc", "Authorization: Basic YTpi"} {
				a := d.by(stranger, method, path, "", header)
				want := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized",` +
					`"reason":"Unauthorized","code":401}` + "\n"
				if a.StatusCode != http.StatusUnauthorized || a.body != want {
					t.Errorf("%s %s: %d %s", method, path, a.StatusCode, a.body)
				}
			}
		}
	}
	if a := d.by(stranger, "POST", "/livez", ""); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST /livez: %d", a.StatusCode)
	}
	if a := d.do("GET", configMaps, "", "Authorization: Bearer abc"); a.StatusCode != http.StatusOK {
		t.Errorf("a token beside a certificate: %d", a.StatusCode)
	}
	resp, err := d.client(1, foreign).Do(d.request("GET", configMaps, ""))
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("another CA's certificate: %d", resp.StatusCode)
	}
}

func TestForbiddenUsersGetUpstreamsErrors(t *testing.T) {
	dir := t.TempDir()
	creds, err := auth.Open(dir, auth.Options{})
	if err != nil {
		t.Fatalf("open the credentials: %v", err)
	}
	d := openServer(t, nil)
	d.url = serveTLS(t, d.api, creds.ServerTLS())
	d.creds = creds
	bob := d.client(2, d.user(dir, "bob", "system:authenticated"))
	root := d.client(2, d.user(dir, "eve", "other", "system:masters"))
	nobody := d.client(2, d.user(dir, ""))
	for _, c := range []struct{ method, path, want string }{
		{
			"GET", configMaps,
			`configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" in the namespace "default"`,
		},
		{
			"GET", configMaps + "/a",
			`configmaps "a" is forbidden: User "bob" cannot get resource "configmaps" in API group "" in the namespace "default"`,
		},
		{
			"GET", configMaps + "?watch=1&timeoutSeconds=-1",
			`configmaps is forbidden: User "bob" cannot watch resource "configmaps" in API group "" in the namespace "default"`,
		},
		{
			"GET", "/api/v1/nodes",
			`nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope`,
		},
		{
			"GET", "/api/v1/configmaps",
			`configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" at the cluster scope`,
		},
		{
			"PATCH", "/apis/apps/v1/namespaces/x/deployments/d/scale",
			`deployments.apps "d" is forbidden: User "bob" cannot patch resource "deployments/scale" in API group "apps" ` +
				`in the namespace "x"`,
		},
		{
			"DELETE", configMaps,
			`configmaps is forbidden: User "bob" cannot deletecollection resource "configmaps" in API group "" in the ` +
				`namespace "default"`,
		},
		{"GET", "/metrics", `forbidden: User "bob" cannot get path "/metrics"`},
	} {
		a := d.by(bob, c.method, c.path, "")
		s := tree(t, a.body)
		if a.StatusCode != http.StatusForbidden || s["message"] != c.want+": only members of system:masters may do this" ||
			s["reason"] != "Forbidden" {
			t.Errorf("%s %s: %d %v\nwant %s", c.method, c.path, a.StatusCode, s["message"], c.want)
		}
		if a := d.by(root, c.method, c.path, ""); a.StatusCode == http.StatusForbidden ||
			a.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s %s for a member of system:masters: %d", c.method, c.path, a.StatusCode)
		}
		if a := d.by(nobody, c.method, c.path, ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s %s without a name: %d", c.method, c.path, a.StatusCode)
		}
	}
}

func TestPanicIsAnsweredWith500AndTheServerContinues(t *testing.T) {
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Reader = &reader{Reader: cfg.Reader, get: func(context.Context) (*wire.Object, error) { panic("oh") }}
	})
	for _, client := range []*http.Client{d.h1, d.h2} {
		a := d.by(client, "GET", configMaps+"/a", "")
		if s := tree(t, a.body); a.StatusCode != http.StatusInternalServerError || s["reason"] != "InternalError" ||
			s["message"] != "Internal error occurred: panic: oh" {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
		if a := d.by(client, "GET", configMaps, ""); a.StatusCode != http.StatusOK {
			t.Errorf("afterwards: %d", a.StatusCode)
		}
	}
}

func TestPanicDuringAnAnswerCutsTheConnection(t *testing.T) {
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Reader = &reader{Reader: cfg.Reader, watch: func(context.Context, wire.ListOptions) (wire.Watch, error) {
			return panicking{}, nil
		}}
	})
	for _, client := range []*http.Client{d.h1, d.h2} {
		s := d.open(client, configMaps+"?watch=1")
		if rest, err := io.ReadAll(s.resp.Body); err == nil {
			t.Errorf("%s: a clean end after %q", s.resp.Proto, rest)
		}
	}
}

type panicking struct{ wire.Watch }

func (panicking) Position() kube.ResourceVersion                  { return 1 }
func (panicking) Next(context.Context) ([]wire.WatchEvent, error) { panic("oh") }
func (panicking) Close()                                          {}

func TestTooManyConcurrentRequestsAreRefused(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Limits = limit.Requests{Reading: 1, Wait: time.Millisecond}
		cfg.Reader = &reader{Reader: cfg.Reader, get: func(context.Context) (*wire.Object, error) {
			close(begun)
			<-release
			return nil, wire.BadRequest("late")
		}}
	})
	w := d.open(d.h2, configMaps+"?watch=1") // is not counted
	defer w.stop()
	done := make(chan answer, 1)
	go func() { done <- d.do("GET", configMaps+"/a", "") }() // ends with release
	<-begun
	a := d.do("GET", configMaps, "")
	s := tree(t, a.body)
	if a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Retry-After") != "1" || s["reason"] != "TooManyRequests" ||
		s["message"] != "Too many requests, please try again later." {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	if a := d.do("GET", "/livez", ""); a.StatusCode != http.StatusOK {
		t.Errorf("livez: %d", a.StatusCode)
	}
	w2 := d.open(d.h2, configMaps+"?watch=1")
	if w2.resp.StatusCode != http.StatusOK {
		t.Errorf("watch: %d", w2.resp.StatusCode)
	}
	w2.stop()
	close(release)
	if a := <-done; a.StatusCode != http.StatusBadRequest {
		t.Errorf("the first: %d", a.StatusCode)
	}
	if a := d.do("GET", configMaps, ""); a.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d", a.StatusCode)
	}
}

func TestRequestPastItsDeadlineGets504(t *testing.T) {
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Reader = &reader{Reader: cfg.Reader, get: func(ctx context.Context) (*wire.Object, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("get: %w", context.Cause(ctx))
		}}
	})
	for _, client := range []*http.Client{d.h1, d.h2} {
		a := d.by(client, "GET", configMaps+"/a?timeout=1ms", "")
		if s := tree(t, a.body); a.StatusCode != http.StatusGatewayTimeout || s["reason"] != "Timeout" ||
			!strings.Contains(a.body, "did not complete within the allotted timeout") {
			t.Errorf("%s: %d %s", a.Proto, a.StatusCode, a.body)
		}
	}
	if a := d.do("GET", configMaps+"/a?timeout=1x", ""); a.StatusCode != http.StatusBadRequest {
		t.Errorf("timeout=1x: %d %s", a.StatusCode, a.body)
	}
}

func TestOnlyAdministratorsMayCompact(t *testing.T) {
	var got apiserver.Compaction
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Compact = func(_ context.Context, c apiserver.Compaction) (apiserver.Compacted, error) {
			got = c
			if c.UpTo == 13 {
				return apiserver.Compacted{}, wire.BadRequest("unlucky")
			}
			return apiserver.Compacted{UpTo: 7, HistoryBytes: 10, LogBytes: 3}, nil
		}
	})
	const path = "/gapless/v1/compact"
	for _, c := range []struct {
		method, body, want string
		asked              apiserver.Compaction
	}{
		{"POST", `{"upTo":"123"}`, `{"compacted":"7","freedHistoryBytes":10,"freedLogBytes":3}`, apiserver.Compaction{UpTo: 123}},
		{
			"POST", `{"olderThan":"10m"}`, `{"compacted":"7","freedHistoryBytes":10,"freedLogBytes":3}`,
			apiserver.Compaction{OlderThan: 10 * time.Minute},
		},
		{
			"POST", `{"olderThan":"10m","purge":true}`, `{"compacted":"7","freedHistoryBytes":10,"freedLogBytes":3}`,
			apiserver.Compaction{OlderThan: 10 * time.Minute, Purge: true},
		},
		{"POST", `{"purge":true}`, "400 set exactly one of upTo and olderThan", apiserver.Compaction{}},
		{"POST", `{"upTo":"13"}`, "400 unlucky", apiserver.Compaction{UpTo: 13}},
		{"POST", ``, "400 the body must be ", apiserver.Compaction{}},
		{"POST", `{`, "400 the body must be ", apiserver.Compaction{}},
		{"POST", `{"upto":"1"}`, `{"compacted":"7","freedHistoryBytes":10,"freedLogBytes":3}`, apiserver.Compaction{UpTo: 1}},
		{"POST", `{"upTo":"1","force":true}`, "400 the body must be ", apiserver.Compaction{}},
		{"POST", `{"upTo":"1"}{}`, "400 the body must be ", apiserver.Compaction{}},
		{"POST", `{"upTo":1}`, "400 the body must be ", apiserver.Compaction{}},
		{"POST", `{}`, "400 set exactly one of upTo and olderThan", apiserver.Compaction{}},
		{"POST", `{"upTo":"1","olderThan":"1m"}`, "400 set exactly one of upTo and olderThan", apiserver.Compaction{}},
		{"POST", `{"upTo":"0"}`, "400 upTo and olderThan must be larger than zero", apiserver.Compaction{}},
		{"POST", `{"upTo":"x"}`, "400 upTo is \"x\", and must be a resourceVersion: a number", apiserver.Compaction{}},
		{"POST", `{"olderThan":"-1m"}`, "400 upTo and olderThan must be larger than zero", apiserver.Compaction{}},
		{
			"POST", `{"olderThan":"1 fortnight"}`, "400 olderThan is \"1 fortnight\", and must be a duration",
			apiserver.Compaction{},
		},
		{"GET", ``, "405 ", apiserver.Compaction{}},
	} {
		got = apiserver.Compaction{}
		a := d.do(c.method, path, c.body)
		text := strings.TrimSpace(a.body)
		if a.StatusCode != http.StatusOK {
			text = fmt.Sprintf("%d %v", a.StatusCode, tree(t, a.body)["message"])
		}
		if !strings.HasPrefix(text, c.want) || got != c.asked {
			t.Errorf("%s %s: %s, want %s; asked %v, want %v", c.method, c.body, text, c.want, got, c.asked)
		}
	}
	got = apiserver.Compaction{}
	if a := d.do("POST",
		path+"?dryRun=All", `{"upTo":"1"}`); a.StatusCode != http.StatusBadRequest || got != (apiserver.Compaction{}) {
		t.Errorf("a dry run: %d, asked %v", a.StatusCode, got)
	}
	if a := openServer(t, nil).do("POST", path, `{"upTo":"1"}`); a.StatusCode < 400 {
		t.Errorf("without compaction: %d", a.StatusCode)
	}
}

func TestOnlyAdministratorsMayBackUp(t *testing.T) {
	var asked *apiserver.Backup
	fails := errors.New("no room")
	d := openServer(t, func(cfg *apiserver.Config) {
		cfg.Backup = func(_ context.Context, b apiserver.Backup, to io.Writer) error {
			if asked = &b; b.History {
				return wire.BadRequest("unlucky")
			}
			if _, err := io.WriteString(to, "the objects"); err != nil {
				return err
			}
			return fails
		}
	})
	const path = "/gapless/v1/backup"
	for _, c := range []struct {
		method, query, body, want string
		asks                      bool
	}{
		{"POST", "", `{"history":true}`, "400 unlucky", true},
		{"POST", "", ``, "400 the body must be ", false},
		{"POST", "", `{"force":true}`, "400 the body must be ", false},
		{"POST", "", `{}{}`, "400 the body must be ", false},
		{"POST", "?history=true", `{}`, "400 a backup has no parameters", false},
		{"GET", "", ``, "405 ", false},
	} {
		asked = nil
		a := d.do(c.method, path+c.query, c.body)
		text := fmt.Sprintf("%d %v", a.StatusCode, tree(t, a.body)["message"])
		if !strings.HasPrefix(text, c.want) || (asked != nil) != c.asks {
			t.Errorf("%s %s: %s, want %s; asked %v", c.method, c.body, text, c.want, asked)
		}
	}
	// One that fails is cut off, so that it does not look complete.
	for _, client := range []*http.Client{d.h1, d.h2} {
		resp, err := client.Do(d.request("POST", path, `{}`))
		if err != nil {
			continue // nothing has left the server
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err == nil {
			t.Errorf("%s: %q looks complete", resp.Proto, body)
		}
	}
	if a := d.by(d.client(2), "POST", path, "{}"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("without credentials: %d", a.StatusCode)
	}
	if a := openServer(t, nil).do("POST", path, `{}`); a.StatusCode < 400 {
		t.Errorf("without backups: %d", a.StatusCode)
	}
}
