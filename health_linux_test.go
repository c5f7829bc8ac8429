package gapless_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

// TestAFullAuditLogFailsNoLivenessProbe: in blocking-strict requests fail, so that the server is
// not ready, but a restart would not help.
func TestAFullAuditLogFailsNoLivenessProbe(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"),
		0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	s := launch(t, gapless.Config{Audit: gapless.Audit{PolicyFile: policy, LogPath: "/dev/full", LogMode: "blocking-strict"}})
	web := webClient(t, s.RESTConfig())
	if code, body := ask(t, web, s.URL()+"/api/v1/namespaces"); code != http.StatusInternalServerError {
		t.Errorf("a list: %d %s, want 500", code, body)
	}
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/livez/ping": http.StatusOK, "/readyz": http.StatusInternalServerError,
	} {
		code, body := ask(t, web, s.URL()+path)
		if code != want || code != http.StatusOK && !strings.Contains(body, "[-]audit-log failed") {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
}
