package kubers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// failing are the tests of kube-rs that cannot pass here, with the reason. One that passes is
// an error too.
var failing = map[string]string{
	"kube test::pod_can_await_conditions": "waits until a pod runs, " +
		"which needs a kubelet",
	"kube_client client::client_ext::test::fetch_fails": "expects an error at column 17 of an " +
		"answer: upstream writes the kind of a built-in object before its apiVersion, gapless after it",
	"kube_client test::can_get_pod_logs_and_evict": "reads the log of a pod, " +
		"which needs a kubelet",
	"kube_client test::pod_can_exec_and_write_to_stdin": "runs a command in a pod, " +
		"which needs a kubelet",
	"kube_client test::pod_can_exec_and_write_to_stdin_from_node_proxy": "talks to a kubelet",
	"kube_runtime events::test::event_recorder_attaches_events_without_namespace": "needs componentstatuses, which are " +
		"deprecated since Kubernetes 1.19 and not served",
}

// least is how many tests of kube-rs need a cluster, or it is not the crates' tests that
// were run.
const least = 27

// verdict is a line of the output of Rust's test programs.
var verdict = regexp.MustCompile(`(?m)^test (\S+) \.\.\. (ok|FAILED)$`)

// TestClusterTestsOfKubeRSPass runs the tests of kube, kube-client and kube-runtime that
// upstream runs on a cluster, and others ignore.
func TestClusterTestsOfKubeRSPass(t *testing.T) {
	harness.Tools(t, "cargo", "cc")
	s := harness.Start(t, "--bootstrap", "cluster")
	ran, failed := 0, map[string]bool{}
	for _, program := range suites(t) {
		crate, _, _ := strings.Cut(filepath.Base(program), "-")
		out := clusterTests(t.Context(), program, s.Kubeconfig)
		for _, m := range verdict.FindAllStringSubmatch(out, -1) {
			name := crate + " " + m[1]
			ran++
			if m[2] == "ok" {
				continue
			}
			failed[name] = true
			if why, listed := failing[name]; listed {
				t.Logf("%s: %s", name, why)
				continue
			}
			_, said, _ := strings.Cut(out, "---- "+m[1]+" stdout ----")
			said, _, _ = strings.Cut(said, "\n---- ")
			t.Errorf("%s fails:\n%s", name, said)
		}
	}
	for name, why := range failing {
		if !failed[name] {
			t.Errorf("%s passes, or there is no such test; it is listed to fail: %s", name, why)
		}
	}
	if ran < least {
		t.Errorf("%d tests ran, want at least %d", ran, least)
	}
	t.Logf("%d of %d tests of kube-rs pass", ran-len(failed), ran)
}

// suites builds the test programs and returns their paths.
func suites(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "./suites", filepath.Join(harness.CacheDir(t, "kubers"), "suites"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("build the tests of kube-rs: %v", err)
	}
	return strings.Fields(string(out))
}

// clusterTests runs those of a program that need a cluster. Its exit code only tells that
// one has failed.
func clusterTests(ctx context.Context, program, kubeconfig string) string {
	cmd := exec.CommandContext(ctx, program, "--ignored", "--test-threads", "4")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "RUST_BACKTRACE=0")
	out, _ := cmd.CombinedOutput()
	return string(out)
}
