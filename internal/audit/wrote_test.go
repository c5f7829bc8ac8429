package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/audit"
)

// annotation is what the last event of a request says that it has changed.
func annotation(t *testing.T, revisions ...int64) string {
	t.Helper()
	p, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"))
	if err != nil {
		t.Fatalf("parse the policy: %v", err)
	}
	var out bytes.Buffer
	log, err := audit.Open(p, audit.Options{Path: "-", Stdout: &out})
	if err != nil {
		t.Fatalf("open the audit log: %v", err)
	}
	ctx, request, err := log.Begin(t.Context(), audit.Arrived{
		HTTP:   httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/api/v1/configmaps", http.NoBody),
		ID:     "x",
		At:     time.Now(),
		Caller: &user.DefaultInfo{Name: "jane"},
	})
	if err != nil {
		t.Fatalf("begin the request: %v", err)
	}
	for _, rv := range revisions {
		request.Wrote(rv)
	}
	request.Completed(ctx, http.StatusOK)
	if err := log.Close(); err != nil {
		t.Fatalf("close the audit log: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var e struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); err != nil {
		t.Fatalf("read the event: %v", err)
	}
	return e.Annotations["gapless.io/resource-version"]
}

func TestEventsNameTheChangesThatWereMade(t *testing.T) {
	for want, revisions := range map[string][]int64{
		"": nil, "7": {7}, "7-9,12,14-15": {15, 8, 12, 7, 9, 14}, "3": {3, 3},
	} {
		if got := annotation(t, revisions...); got != want {
			t.Errorf("of %v: %q, want %q", revisions, got, want)
		}
	}
}

// TestAnEventNamesABoundedNumberOfChanges has 1 003 changes between those of others.
func TestAnEventNamesABoundedNumberOfChanges(t *testing.T) {
	var revisions []int64
	for i := range int64(1003) {
		revisions = append(revisions, 1_000_000_000+2*i)
	}
	got := annotation(t, revisions...)
	if last := fmt.Sprintf(",%d,+3", revisions[999]); !strings.HasSuffix(got, last) || len(got) > 22<<10 {
		t.Errorf("%d bytes, which end with %q, want %q", len(got), got[max(0, len(got)-len(last)):], last)
	}
}
