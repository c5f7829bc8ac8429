//go:build linux

package crash_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

// TestFullDiskOfTheAuditLogLosesOnlyWhatIsCounted fills the file system of the audit log, and not
// that of the data. Each event is then in the file or counted as lost, whatever the mode, and
// without help events are written again when there is space.
func TestFullDiskOfTheAuditLogLosesOnlyWhatIsCounted(t *testing.T) {
	for _, mode := range []string{"blocking", "blocking-strict", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			disk, dir := smallDisk(t), t.TempDir()
			rules, log, ballast := filepath.Join(dir, "policy.yaml"), filepath.Join(disk, "audit.log"), filepath.Join(disk,
				"ballast")
			const policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: Request, verbs: [create], resources: " +
				"[{resources: [configmaps]}]}\n"
			if err := os.WriteFile(rules, []byte(policy), 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
			s := newSite(t, program.Config{
				Flags: []string{"--audit-policy-file", rules, "--audit-log-path", log, "--audit-log-mode", mode},
			})
			s.until("events are lost", func() bool {
				fill(t, ballast)
				a := s.write()
				if mode == "blocking-strict" && a.Code == http.StatusInternalServerError {
					return strings.Contains(a.Status().Message, "audit event")
				}
				if a.Code != http.StatusCreated {
					t.Fatalf("a write while the audit log cannot be written: %s", a)
				}
				return s.metric(`apiserver_audit_error_total{plugin="log"}`) > 0
			})
			s.mustSayThatEventsAreLost(mode)
			if err := os.Remove(ballast); err != nil {
				t.Fatalf("remove a file: %v", err)
			}
			s.until("events are written again", func() bool {
				lost := s.metric(`apiserver_audit_error_total{plugin="log"}`)
				a := s.write()
				return a.Code == http.StatusCreated && s.metric(`apiserver_audit_error_total{plugin="log"}`) == lost
			})
			s.mustHaveAll("after the shortage")
			var made, lost, written int
			s.until("each event is in the file or counted", func() bool { // in the mode batch the last ones come later
				made, lost = s.metric("apiserver_audit_event_total"), s.metric(`apiserver_audit_error_total{plugin="log"}`)
				written = eventsIn(t, log)
				return made == lost+written
			})
			t.Logf("%d events, %d written, %d lost", made, written, lost)
			s.until("readyz is ok", func() bool { return s.get("/readyz").Code == http.StatusOK })
		})
	}
}

// mustSayThatEventsAreLost checks the log of the server and its health.
func (s *site) mustSayThatEventsAreLost(mode string) {
	s.t.Helper()
	if !bytes.Contains(s.server.Log(16<<10), []byte("audit events are lost")) {
		s.t.Errorf("the log does not say that events are lost:\n%s", s.server.Log(2<<10))
	}
	ready := s.get("/readyz?verbose")
	if fails := bytes.Contains(ready.Body, []byte("[-]audit-log")); fails != (mode == "blocking-strict") {
		s.t.Errorf("mode %s: /readyz %s", mode, ready)
	}
	if a := s.get("/livez"); a.Code != http.StatusOK {
		s.t.Errorf("/livez: %s", a)
	}
	if a := s.get(configMaps); a.Code != http.StatusOK { // the policy has no event for it
		s.t.Errorf("a list: %s", a)
	}
}

// metric returns the value of a counter.
func (s *site) metric(name string) int {
	s.t.Helper()
	a := s.get("/metrics")
	for line := range strings.Lines(string(a.Body)) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			var f float64
			if _, err := fmt.Sscan(value, &f); err != nil {
				s.t.Fatalf("%s: %v", line, err)
			}
			return int(f)
		}
	}
	s.t.Fatalf("no metric %s: %s", name, a)
	return 0
}

// eventsIn counts the lines of a log, each of which must be an event.
func eventsIn(t *testing.T, path string) (n int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	for line := range bytes.Lines(content) {
		var e struct{ Kind, AuditID string }
		if err := json.Unmarshal(line, &e); err != nil || e.Kind != "Event" || e.AuditID == "" {
			t.Fatalf("line %d is no event: %v: %.200q", n+1, err, line)
		}
		n++
	}
	return n
}
