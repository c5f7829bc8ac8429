package harness

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// StartFront starts `gapless proxy` in front of the API server of a kubeconfig, with further flags, waits
// until it listens, and ends it with the test. It returns the path of the proxy's own kubeconfig.
func StartFront(t testing.TB, program, kubeconfig string, flags ...string) string {
	t.Helper()
	args := append([]string{
		"proxy", "--listen", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "proxy"), "--kubeconfig", kubeconfig,
	}, flags...)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...) // it is to be signalled, not killed
	out := &Printed{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("the proxy ends with %v", err)
		}
		if t.Failed() {
			t.Logf("output of the proxy:\n%s", out)
		}
	})
	path := regexp.MustCompile(`(?m)^ *export KUBECONFIG=(.*)$`)
	Eventually(t, "the proxy listens", func() bool { return path.MatchString(out.String()) })
	return path.FindStringSubmatch(out.String())[1]
}
