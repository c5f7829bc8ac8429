package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// crate answers as an aggregated API server with the kind Crate, which has OpenAPI v2 only.
func crate(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/behind.example.com/v1":
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"behind.example.com/v1","resources":[{
			"name":"crates","singularName":"crate","namespaced":true,"kind":"Crate","verbs":["create","get","list"]}]}`)
	case "/openapi/v2":
		fmt.Fprint(w, `{"swagger":"2.0","info":{"title":"t","version":"v"},"paths":{
			"/apis/behind.example.com/v1/namespaces/{namespace}/crates":{"post":{"consumes":["*/*"],"produces":["*/*"],
				"parameters":[{"name":"body","in":"body","required":true,"schema":{"$ref":"#/definitions/v1.Crate"}}],
				"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/v1.Crate"}}},
				"x-kubernetes-group-version-kind":{"group":"behind.example.com","version":"v1","kind":"Crate"}}}},
			"definitions":{"v1.Crate":{"description":"Crate holds bottles.","type":"object","properties":{
				"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object"},
				"bottles":{"description":"How many bottles.","type":"integer","format":"int32"}},
				"x-kubernetes-group-version-kind":[{"group":"behind.example.com","version":"v1","kind":"Crate"}]}}}`)
	default:
		http.NotFound(w, r)
	}
}

// TestOldKubectlKnowsAggregatedKinds has kubectl 1.20, which reads OpenAPI v2 in protobuf, explain a kind of a server
// behind, and check a manifest of it before it sends that.
func TestOldKubectlKnowsAggregatedKinds(t *testing.T) {
	behind := httptest.NewUnstartedServer(http.HandlerFunc(crate))
	behind.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	behind.StartTLS()
	t.Cleanup(behind.Close)
	s := harness.StartProgram(t, server(t))
	kubectl := filepath.Join(build(t, "compat/kubectl/v120"), "kubectl")
	home := t.TempDir()
	run := func(stdin string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), kubectl, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "HOME="+home)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(behind.URL, "https://"), ":")
	made := run(fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Service","metadata":{"name":
		"behind"},"spec":{"type":"ExternalName","externalName":"localhost"}},{"apiVersion":"apiregistration.k8s.io/v1","kind":
		"APIService","metadata":{"name":"v1.behind.example.com"},"spec":{"group":"behind.example.com","version":"v1",
		"groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":
		"behind","port":%s}}}]}`, port), "create", "-f", "-")
	if !strings.HasSuffix(made, "<nil>") {
		t.Fatalf("create the APIService: %s", made)
	}
	harness.Eventually(t, "kubectl explains the kind", func() bool {
		return strings.Contains(run("", "explain", "crates.bottles"), "How many bottles.")
	})
	const head = `{"apiVersion":"behind.example.com/v1","kind":"Crate","metadata":{"name":"a"},`
	if said := run(head+`"bottles":"many"}`, "create", "--dry-run=client", "-f", "-"); !strings.Contains(said,
		`invalid type for com.example`) && !strings.Contains(said, "ValidationError(Crate.bottles)") {
		t.Errorf("a manifest with a wrong type: %s", said)
	}
	if said := run(head+`"bottle":1}`, "create", "--dry-run=client", "-f", "-"); !strings.Contains(said,
		`unknown field "bottle"`) {
		t.Errorf("a manifest with an unknown field: %s", said)
	}
	if said := run(head+`"bottles":1}`, "create", "--dry-run=client", "-f", "-"); !strings.HasSuffix(said, "<nil>") {
		t.Errorf("a manifest: %s", said)
	}
}
