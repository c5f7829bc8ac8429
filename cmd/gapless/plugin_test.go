package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUsageOfAPluginIsThatOfKubectl calls the program as kubectl calls its plugins.
func TestUsageOfAPluginIsThatOfKubectl(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	dir := t.TempDir()
	plugin := filepath.Join(dir, "kubectl-gapless")
	if err := os.Symlink(own, plugin); err != nil {
		t.Skipf("there are no links: %v", err)
	}
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{
			[]string{"history", "--help"},
			exitOK,
			[]string{"\n  kubectl gapless history RESOURCE", "\n  kubectl gapless history deployments/web\n"},
		},
		{[]string{"history"}, exitUsage, []string{"run 'kubectl gapless history --help' for usage"}},
		{nil, exitOK, []string{"\n  kubectl gapless [command]", "\n  kubectl gapless serve\n"}},
	} {
		cmd := process(t, dir, c.args...)
		cmd.Path = plugin
		cmd.Args[0] = plugin
		out, _ := cmd.CombinedOutput() // the code is looked at below
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.args, code, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v: %q is missing in\n%s", c.args, want, out)
			}
		}
		if strings.Contains(string(out), "\n  gapless ") {
			t.Errorf("%v: it is still called gapless:\n%s", c.args, out)
		}
	}
}
