package dropin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEtcdAnswersWhatEnvtestAsks(t *testing.T) {
	dir := t.TempDir()
	server := httptest.NewServer(place{DataDir: dir, NoFsync: true}.handler())
	defer server.Close()
	for path, want := range map[string]string{
		"/health":  `{"health":"true","reason":""}`,
		"/readyz":  "ok",
		"/version": `{"etcdcluster":"` + etcdVersion + `","etcdserver":"` + etcdVersion + `","storage":"gapless"}`,
	} {
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatalf("close body: %v", err)
		}
		if got := strings.TrimSpace(string(body)); resp.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %s %s, want 200 %s", path, resp.Status, got, want)
		}
	}
	at, err := askEtcd(t.Context(), []string{server.URL})
	if err != nil || at != (place{DataDir: dir, NoFsync: true}) {
		t.Errorf("kube-apiserver gets %v, %v", at, err)
	}
}

func TestAnotherEtcdIsRefusedWithTheReason(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"not found":       http.NotFound,
		"something else":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"dataDir":"here"}`) },
		"no JSON at all":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `<html>`) },
		"a failing proxy": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			_, err := askEtcd(t.Context(), []string{server.URL})
			if err == nil || !strings.Contains(err.Error(), "is not the etcd of gapless envtest install") {
				t.Errorf("error %v, want that it is another etcd", err)
			}
		})
	}
	for _, servers := range [][]string{nil, {"http://a:1", "http://b:1"}, {"https://a:1"}, {"127.0.0.1:2379"}} {
		if _, err := askEtcd(t.Context(), servers); err == nil {
			t.Errorf("--etcd-servers=%v is accepted", servers)
		}
	}
}

func TestWaitingForEtcdEndsWithTheProgram(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("told to stop"))
	if _, err := askEtcd(ctx, []string{"http://127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "told to stop") {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestEachPrefixInEtcdHasObjectsOfItsOwn(t *testing.T) {
	at := place{DataDir: "/e"}
	seen := map[string]string{}
	for _, prefix := range []string{"/registry", "/a", "/a/b", "a_b", "/a%2Fb", "..", "/", "registry-2"} {
		dir, err := at.directory(prefix)
		if err != nil {
			t.Fatalf("directory: %v", err)
		}
		if other, is := seen[dir]; is || filepath.Dir(dir) != "/e" {
			t.Errorf("%q is kept in %s, as is %q", prefix, dir, other)
		}
		seen[dir] = prefix
	}
	for _, same := range []string{"registry", "/registry/"} {
		if dir, err := at.directory(same); seen[dir] != "/registry" || err != nil {
			t.Errorf("%q is kept in %s, %v", same, dir, err)
		}
	}
	if dir, err := at.directory("/" + strings.Repeat("a", 300)); err == nil {
		t.Errorf("a prefix of 300 bytes is kept in %s", dir)
	}
}

func TestEtcdListensAtEachOfItsURLs(t *testing.T) {
	_, listen, err := newPlace([]setting{{name: "listen-client-urls", value: "http://127.0.0.1:1,http://[::1]:2"}})
	if err != nil || strings.Join(listen, " ") != "127.0.0.1:1 [::1]:2" {
		t.Errorf("listens on %v, %v", listen, err)
	}
	for _, urls := range []string{"https://127.0.0.1:1", "unix:///a", "127.0.0.1:1", ",", "http://"} {
		if _, _, err := newPlace([]setting{{name: "listen-client-urls", value: urls}}); err == nil {
			t.Errorf("--listen-client-urls=%s is accepted", urls)
		}
	}
}

func FuzzAnswerOfEtcd(f *testing.F) {
	f.Add([]byte(`{"dataDir":"/e","unsafeNoFsync":true}`))
	f.Add([]byte(`{"dataDir":"e"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		at, err := readPlace(body)
		if err == nil && !filepath.IsAbs(at.DataDir) {
			t.Errorf("%q is read as the relative directory %q", body, at.DataDir)
		}
	})
}

func TestKubectlIsTheFirstOfPathThatIsNotGapless(t *testing.T) {
	mine, others, bad := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(dir string, mode os.FileMode) string {
		path := filepath.Join(dir, "kubectl")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		return path
	}
	own, want := write(mine, 0o755), write(others, 0o755)
	write(bad, 0o644)
	path := join([]string{mine, bad, filepath.Join(mine, "missing"), others})
	if got, err := findKubectl(path, []string{own}); got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err := findKubectl(path, []string{own, want}); err == nil || !strings.Contains(err.Error(), "none in PATH") {
		t.Errorf("%q, %v, want that there is none", got, err)
	}
}
