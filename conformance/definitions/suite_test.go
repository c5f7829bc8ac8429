package definitions

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/definitions/fixtures"
	"github.com/gapless-io/gapless/conformance/expected"
)

var update = flag.Bool("update", false, "write the list of expected failures in testdata again")

const list = "testdata/failures.txt"

// TestUpstreamsTestsOfDefinitionsPass runs each of upstream's tests in a process of its own, so
// that it cannot end others, with a server for each.
func TestUpstreamsTestsOfDefinitionsPass(t *testing.T) {
	gapless, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the working directory: %v", err)
	}
	from := filepath.Join(strings.TrimSpace(run(t, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/apiextensions-apiserver")),
		"test", "integration")
	overlaid, err := overlay(t.TempDir(), root, from)
	if err != nil {
		t.Fatalf("overlay: %v", err)
	}
	listed, err := expected.ReadList(list)
	if err != nil {
		t.Fatalf("read list: %v", err)
	}
	etcd := refuseEtcd(t)
	all := &expected.Results{}
	t.Run("all", func(t *testing.T) {
		for _, pkg := range []string{"integration", "integration/conversion"} {
			program := filepath.Join(t.TempDir(), filepath.Base(pkg)+".test")
			run(t, "go", "test", "-c", "-o", program, "-overlay="+overlaid, "./"+pkg)
			dir := filepath.Join(from, strings.TrimPrefix(pkg, "integration"))
			names := strings.Fields(run(t, program, "-test.list=^Test"))
			if len(names) == 0 {
				t.Errorf("%s has no tests", pkg)
			}
			for _, name := range names {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					one := alone(t, program, dir, name, gapless, etcd)
					if wait := one.Surprises(listed); len(wait) > 0 && !*update {
						t.Logf("it runs again, since some wait no longer than upstream's machines need:\n%s\n%s",
							strings.Join(wait, "\n"), tail(one.Said, 3000))
						one = alone(t, program, dir, name, gapless, etcd)
					}
					all.Add(one)
					for _, name := range one.Surprises(listed) {
						if *update {
							break
						}
						t.Errorf("failed, and is not listed: %s\n%s", name, tail(one.Said, 12000))
					}
				})
			}
		}
	})
	passed, failed, skipped := all.Leaves()
	if *update {
		if err := expected.WriteList(list, "custom resources", failed, listed); err != nil {
			t.Fatalf("write list: %v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if reason := listed[name]; strings.HasPrefix(reason, expected.Unexplained) {
			t.Errorf("nobody has said why it fails: %s", name)
		}
		if slices.Contains(passed, name) || !slices.Contains(failed, name) {
			t.Errorf("is listed, and did not fail: %s", name)
		}
	}
	for _, name := range skipped {
		t.Errorf("was skipped: %s", name)
	}
	known := len(failed) - len(all.Surprises(listed))
	t.Logf("%d passed, %d skipped, %d expected failures, %d other failures",
		len(passed), len(skipped), known, len(failed)-known)
}

// refuseEtcd returns the URL of a server that answers etcd's clients with an error, since they
// wait for ever for one that is not there.
func refuseEtcd(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// alone runs one test with its subtests.
func alone(t *testing.T, program, dir, name, gapless, etcd string) *expected.Results {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^"+name+"$", "-test.timeout=8m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), fixtures.Program+"="+gapless, "KUBE_INTEGRATION_ETCD_URL="+etcd)
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	r := expected.ReadResults(string(out))
	r.Complete(name)
	return r
}

// run runs a command that has to succeed, and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, stderr.Bytes())
	}
	return string(out)
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return fmt.Sprintf("... %s", s[len(s)-n:])
}
