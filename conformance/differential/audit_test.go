package differential_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/oracle"
)

// auditPolicy has each level and each way to select.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- {level: None, userGroups: [nobody]}
- {level: None, nonResourceURLs: ["/openapi/*", "/apis", "/api"]}
- {level: None, verbs: [get], resources: [{group: "*", resources: [foos], resourceNames: [unseen]}]}
- {level: Metadata, namespaces: [b]}
- {level: Metadata, resources: [{group: "*", resources: ["*/status"]}], omitStages: [RequestReceived]}
- {level: Request, verbs: [list, watch]}
- {level: Request, verbs: [patch, delete], resources: [{group: "*", resources: [foos]}]}
- {level: RequestResponse, resources: [{group: "audit.example.com"}]}
- {level: Metadata, nonResourceURLs: ["/version", "/nowhere*"]}
`

// auditSteps are sent to both servers, each with its number as Audit-Id.
func auditSteps() []struct{ method, path, content, body string } {
	const foos = "/apis/audit.example.com/v1/namespaces/n/foos"
	const inJSON, foo = "application/json", `"apiVersion":"audit.example.com/v1","kind":"Foo"`
	return []struct{ method, path, content, body string }{
		{"POST", foos, inJSON, `{` + foo + `,"metadata":{"name":"a"},"spec":{"color":"red"}}`},
		{"POST", foos, inJSON, `{` + foo + `,"metadata":{"name":"a"}}`},
		{"POST", foos, inJSON, `{` + foo + `,"metadata":{"generateName":"g-"}}`},
		{"POST", foos, inJSON, `{` + foo + `,"metadata":{"name":"invalid"},"spec":{"size":-1}}`},
		{"POST", foos, inJSON, `{"metadata":`},
		{"POST", foos, "application/yaml", "apiVersion: audit.example.com/v1\nkind: Foo\nmetadata: {name: in-yaml}\n"},
		{"POST", strings.Replace(foos, "/n/", "/b/", 1), inJSON, `{` + foo + `,"metadata":{"name":"a"}}`},
		{"GET", foos + "/a", "", ""},
		{"GET", foos + "/unseen", "", ""},
		{"GET", foos + "/none", "", ""},
		{"GET", foos, "", ""},
		{"GET", foos + "?fieldSelector=metadata.name%3Da", "", ""},
		{"GET", "/apis/audit.example.com/v1/foos", "", ""},
		{"PUT", foos + "/a", inJSON, `{` + foo + `,"metadata":{"name":"a","resourceVersion":"1"}}`},
		{"PUT", foos + "/a/status", inJSON, `{` + foo + `,"metadata":{"name":"a"},"status":{"phase":"x"}}`},
		{"PATCH", foos + "/a", "application/merge-patch+json", `{"spec":{"color":"blue"}}`},
		{"PATCH", foos + "/a", "application/json-patch+json", `[{"op":"test","path":"/spec/color","value":"green"}]`},
		{
			"PATCH", foos + "/a?fieldManager=m", "application/apply-patch+yaml",
			"apiVersion: audit.example.com/v1\nkind: Foo\nspec: {text: t}\n",
		},
		{"GET", foos + "?watch=1&timeoutSeconds=1&resourceVersion=0", "", ""},
		{"GET", foos + "?watch=1&resourceVersion=x", "", ""},
		{"DELETE", foos + "/a", inJSON, `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`},
		{"DELETE", foos + "/none", "", ""},
		{"DELETE", foos, "", ""},
		{"GET", "/apis/audit.example.com/v1/namespaces/n/nothings/x", "", ""},
		{"GET", "/version", "", ""},
		{"GET", "/nowhere/at/all", "", ""},
		{"GET", "/openapi/v3", "", ""},
	}
}

// TestAuditEventsAreUpstreams sends the same requests to both servers under the same policy,
// and compares the events.
func TestAuditEventsAreUpstreams(t *testing.T) {
	binary := build(t)
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	flags := func(name string) []string {
		return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(dir, name)}
	}
	reference, err := oracle.Start(t.Context(), oracle.Options{Dir: t.TempDir(), NoSync: true, Flags: flags("upstream.log")})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := reference.Stop(); err != nil {
			t.Errorf("stop reference: %v", err)
		}
	})
	up := &upstream{server: reference}
	own := newProgram(t, binary, flags("gapless.log")...)
	for _, server := range []play.Server{up, own} {
		if err := define(t.Context(), server, "audit.example.com"); err != nil {
			t.Fatalf("define: %v", err)
		}
		for i, step := range auditSteps() {
			req, err := http.NewRequestWithContext(t.Context(), step.method, server.Target().URL+step.path,
				strings.NewReader(step.body))
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			req.Header.Set("Audit-Id", fmt.Sprintf("step-%02d", i))
			req.Header.Set("User-Agent", "test/1")
			if step.content != "" {
				req.Header.Set("Content-Type", step.content)
			}
			if _, _, err := send(server.Target(), req); err != nil {
				t.Fatalf("%s %s: %v", step.method, step.path, err)
			}
		}
	}
	last := fmt.Sprintf("step-%02d", len(auditSteps())-2) // the last one is not recorded
	want, got := events(t, filepath.Join(dir, "upstream.log"), last), events(t, filepath.Join(dir, "gapless.log"), last)
	known := knownAuditDifferences()
	for i, step := range auditSteps() {
		id := fmt.Sprintf("step-%02d", i)
		diff := cmp.Diff(want[id], got[id])
		reason := known[i]
		switch {
		case diff != "" && reason == "":
			t.Errorf("%s %s (-upstream +gapless):\n%s", step.method, step.path, diff)
		case diff == "" && reason != "":
			t.Errorf("%s %s: there is no difference any more: %s", step.method, step.path, reason)
		}
	}
}

// knownAuditDifferences are those of docs/differences.md, by the number of the step.
func knownAuditDifferences() map[int]string {
	return map[int]string{
		19: "upstream answers 500 to a resourceVersion that is not one",
		20: "upstream records DeleteOptions in its internal version",
		22: "upstream records an empty continue of the deleted list",
		23: "the answer for what is not served is a Status here",
	}
}

// events returns the events of the steps in a log, by id, normalised. It waits for the end of
// a request: upstream may write it after its answer.
func events(t *testing.T, path, last string) map[string][]string {
	t.Helper()
	for {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		all := map[string][]string{}
		done := false
		for line := range bytes.Lines(content) {
			var e map[string]any
			if err := json.Unmarshal(line, &e); err != nil {
				break // it is being written
			}
			id, _ := e["auditID"].(string)
			if !strings.HasPrefix(id, "step-") {
				continue
			}
			all[id] = append(all[id], normalised(t, e))
			done = done || id == last && e["stage"] == "ResponseComplete"
		}
		if done {
			return all
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%s has no event of %s", path, last)
		}
	}
}

var changing = regexp.MustCompile(`"(uid|resourceVersion|creationTimestamp)": "[^"]*"|g-[a-z0-9]{5}|"timestamp": "[^"]*"`)

// normalised is an event without what no two servers have in common.
func normalised(t *testing.T, e map[string]any) string {
	t.Helper()
	for _, key := range []string{"requestReceivedTimestamp", "stageTimestamp", "user"} {
		if e[key] == nil {
			t.Errorf("an event without %s: %v", key, e)
		}
		delete(e, key)
	}
	if a, is := e["annotations"].(map[string]any); is {
		for key := range a { // how long it took, and what else depends on the machine
			if !slices.Contains([]string{"authorization.k8s.io/decision", "authorization.k8s.io/reason"}, key) {
				delete(a, key)
			}
		}
	}
	text, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		t.Fatalf("marshal indent: %v", err)
	}
	return changing.ReplaceAllString(string(text), "$1")
}
