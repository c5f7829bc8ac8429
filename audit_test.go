package gapless_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

func TestWrongAuditConfigurationsAreRefusedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	wrong, right := filepath.Join(dir, "wrong.yaml"), filepath.Join(dir, "right.yaml")
	for path, text := range map[string]string{wrong: "rules: [{level: All}]", right: "rules: [{level: None}]"} {
		if err := os.WriteFile(path, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+text), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	for want, a := range map[string]gapless.Audit{
		"set PolicyFile":   {LogPath: "-"},
		"set LogPath":      {PolicyFile: right},
		"rules[0].level":   {PolicyFile: wrong, LogPath: "-"},
		"no such file":     {PolicyFile: wrong + "er", LogPath: "-"},
		"--audit-log-mode": {PolicyFile: right, LogPath: "-", LogMode: "later"},
		"is a directory":   {PolicyFile: right, LogPath: dir},
	} {
		err := tryRun(t, gapless.Config{Memory: true, Listen: "127.0.0.1:0", Audit: a})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", a, err, want)
		}
	}
}

// The log may be in the data directory, which is new at the first start.
func TestEventsOfAllStartsAreInTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "data", "audit", "audit.log")
	if err := os.WriteFile(policy,
		[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, nonResourceURLs: [/version]}]"),
		0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, mode := range []string{"blocking-strict", "batch"} {
		s, err := gapless.New(gapless.Config{
			DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0",
			Audit: gapless.Audit{PolicyFile: policy, LogPath: log, LogMode: mode, LogMaxSize: gapless.Forever},
		})
		if err != nil {
			t.Fatalf("make the server: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }() // ends with ctx
		client, err := rest.HTTPClientFor(s.RESTConfig())
		if err != nil {
			t.Fatalf("make an HTTP client: %v", err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/version", http.NoBody)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Audit-Id", mode)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("send a request: %v", err)
		}
		_ = resp.Body.Close()
		client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Fatalf("wait for the end: %v", err)
		}
	}
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	for _, mode := range []string{"blocking-strict", "batch"} {
		if n := strings.Count(string(content), `"auditID":"`+mode+`"`); n != 2 {
			t.Errorf("%d events of the start with mode %s, want 2: %s", n, mode, content)
		}
	}
}
