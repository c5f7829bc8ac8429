package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// inFront starts gapless proxy in front of the server of a kubeconfig, and returns the path of
// the proxy's own.
func inFront(t testing.TB, gapless, kubeconfig string, flags ...string) string {
	t.Helper()
	args := append([]string{"proxy", "--listen", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "proxy"), "--kubeconfig", kubeconfig}, flags...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), gapless, args...) // it is to be signalled, not killed
	out := &watch{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the proxy ends with %v", err)
		}
		if t.Failed() {
			t.Logf("output of the proxy:\n%s", out.text())
		}
	})
	path := regexp.MustCompile(`(?m)^ *export KUBECONFIG=(.*)$`)
	harness.Eventually(t, "the proxy listens", func() bool { return path.MatchString(out.text()) })
	return path.FindStringSubmatch(out.text())[1]
}

// TestKubectlThroughTheProxy runs scripts of testdata/script against a proxy without rules: reads,
// watches, applies and deletions are as without it.
func TestKubectlThroughTheProxy(t *testing.T) {
	gapless := server(t)
	run(t, site{gapless: gapless, kubectl: newest, scripts: []string{
		"testdata/script/configmaps.txtar", "testdata/script/custom.txtar", "testdata/script/finalizers.txtar", "testdata/script/shop.txtar",
	}, kubeconfig: func(t testing.TB, of string) string { return inFront(t, gapless, of) }})
}
