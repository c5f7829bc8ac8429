package controllers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestKwokctlStartsACluster lets kwokctl start gapless as its kube-apiserver and etcd, beside the
// real kwok, which plays a node. The programs outlive kwokctl.
func TestKwokctlStartsACluster(t *testing.T) {
	t.Parallel()
	bin, home := build(t), t.TempDir()
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home, "KUBECONFIG="+filepath.Join(home, "kubeconfig"))
	run := func(ctx context.Context, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.Env = env
		var said strings.Builder // a buffer, not a pipe: what kwokctl starts must not keep it open
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s%s", name, args, err, said.String(), logs(home))
		}
		return strings.TrimSpace(string(out))
	}
	assets := run(t.Context(), "gapless", "envtest", "install", "--dir="+filepath.Join(home, "store"), "--print=path")
	t.Cleanup(func() {
		run(context.WithoutCancel(t.Context()), "kwokctl", "delete", "cluster", "--name=gapless")
		if left, err := filepath.Glob(filepath.Join(home, ".kwok", "clusters", "*")); err != nil || left != nil {
			t.Errorf("kwokctl leaves %v, %v", left, err)
		}
	})
	run(t.Context(), "kwokctl", "create", "cluster", "--name=gapless", "--runtime=binary",
		"--kube-apiserver-binary="+filepath.Join(assets, "kube-apiserver"),
		"--etcd-binary="+filepath.Join(assets, "etcd"), "--kwok-controller-binary="+filepath.Join(bin, "kwok"),
		"--disable=kube-controller-manager", "--disable=kube-scheduler")
	if got := run(t.Context(), "kubectl", "get", "namespaces", "--output=name"); !strings.Contains(got, "namespace/default") {
		t.Errorf("kubectl lists %q", got)
	}
	run(t.Context(), "kwokctl", "scale", "node", "--name=gapless", "--replicas=1")
	harness.Eventually(t, "the node of kwok is ready", func() bool {
		return strings.Contains(run(t.Context(), "kubectl", "get", "nodes"), " Ready ")
	})
	run(t.Context(), "kwokctl", "stop", "cluster", "--name=gapless")
	run(t.Context(), "kwokctl", "start", "cluster", "--name=gapless")
	if got := run(t.Context(), "kubectl", "get", "nodes", "--output=name"); !strings.HasPrefix(got, "node/") {
		t.Errorf("after a restart of the cluster, kubectl lists %q", got)
	}
}

// logs returns what the programs of the cluster have said.
func logs(home string) string {
	files, err := filepath.Glob(filepath.Join(home, ".kwok", "clusters", "gapless", "logs", "*.log"))
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		all.WriteString("\n" + file + ":\n" + string(text))
		if err != nil {
			all.WriteString(err.Error())
		}
	}
	return all.String()
}
