package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestAVariableOfNoFlagIsAWarning(t *testing.T) {
	t.Setenv("GAPLESS_HISTROY", "1h")
	t.Setenv("GAPLESS_PROGRAM", "/some/where") // package processtest reads it
	t.Setenv("GAPLESS_LISTEN", "127.0.0.1:0")  // a flag of another command
	code, _, stderr := command(t, "fsck", t.TempDir())
	if !strings.Contains(stderr, "warning: the environment variable GAPLESS_HISTROY is not known") {
		t.Errorf("exit code %d, no warning:\n%s", code, stderr)
	}
	for _, known := range []string{"GAPLESS_PROGRAM", "GAPLESS_LISTEN", asProgram} {
		if strings.Contains(stderr, known) {
			t.Errorf("%s is warned about:\n%s", known, stderr)
		}
	}
}

// TestTheVariableOfProcesstestIsOfNoFlag: it names a program, --program of envtest index programs by system.
func TestTheVariableOfProcesstestIsOfNoFlag(t *testing.T) {
	t.Setenv("GAPLESS_PROGRAM", "/some/where")
	t.Setenv("GAPLESS_OUT", "dist")
	index, _, err := newRoot(streams{}).Find([]string{"envtest", "index"})
	if err == nil {
		err = fromEnvironment(index)
	}
	if program := index.Flag("program"); err != nil || program == nil || isByVariable(program) {
		t.Errorf("--program: %v, %v", program, err)
	}
	if out := index.Flag("out"); !isByVariable(out) {
		t.Error("a flag whose variable is set is not")
	}
}

func TestAKubeconfigThatDoesNotExistIsNamed(t *testing.T) {
	none := filepath.Join(t.TempDir(), "no-such-config")
	t.Setenv("KUBECONFIG", none)
	if code, _, stderr := command(t, "watch", "pods"); code != exitRunTime ||
		!strings.Contains(stderr, "KUBECONFIG names "+none+", which does not exist") {
		t.Errorf("exit code %d:\n%s", code, stderr)
	}
}

func TestStatusOfAServerShowsItsResources(t *testing.T) {
	_, ready := serveInMemory(t)
	code, stdout, stderr := command(t, "status", "--kubeconfig", ready.Kubeconfig)
	if code != 0 || !strings.Contains(stdout, "\nnamespaces ") || stderr != "" {
		t.Errorf("exit code %d:\n%s%s", code, stdout, stderr)
	}
}
