package operators

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	certManager        = "github.com/cert-manager/cert-manager"
	prometheusOperator = "github.com/prometheus-operator/prometheus-operator"
)

// set is a set of programs that one command installs.
type set struct {
	dir      string // of the module that requires them
	packages []string
	programs []string
}

var (
	helm                = set{"../helm", []string{"helm.sh/helm/v4/cmd/helm"}, []string{"helm"}}
	kubectl             = set{"../kubectl", []string{"."}, []string{"kubectl"}}
	certManagerPrograms = set{
		"certmanager", []string{"./controller", "./webhook", "./cainjector"}, []string{"controller", "webhook", "cainjector"},
	}
	prometheusPrograms = set{".", []string{"tool"}, []string{"admission-webhook", "operator"}}
)

// build builds gapless, and installs sets of programs beside it. Those stay outside the checkout, so
// that they are linked only once.
func build(t *testing.T, sets ...set) (bin string) {
	t.Helper()
	bin, tools := t.TempDir(), harness.CacheDir(t, "operators")
	if _, err := harness.Build(t.Context(), bin, harness.Root(), "cmd/gapless"); err != nil {
		t.Fatalf("build: %v", err)
	}
	for _, s := range sets {
		harness.Must(t, s.dir, []string{"GOBIN=" + tools, "GOWORK=auto"},
			append([]string{"go", "install", "-ldflags=-s -w"}, s.packages...)...)
		for _, name := range s.programs {
			if err := os.Symlink(filepath.Join(tools, name), filepath.Join(bin, name)); err != nil {
				t.Fatalf("make a link: %v", err)
			}
		}
	}
	return bin
}

// module returns the directory of a module in the module cache, in the version that the module
// in dir requires.
func module(t *testing.T, dir, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", path)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=auto")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("find module %s: %v", path, err)
	}
	return strings.TrimSpace(string(out))
}

// program is a program of an operator, which runs until the test ends.
type program struct {
	name string
	cmd  *exec.Cmd
	log  harness.Printed
}

// start starts a program with the identity of a service account.
func (c *cluster) start(t *testing.T, name, namespace, account string, args ...string) *program {
	t.Helper()
	kubeconfig := c.kubeconfig(t, namespace, account)
	for i, arg := range args {
		args[i] = strings.Replace(arg, "$KUBECONFIG", kubeconfig, 1)
	}
	// Not to end with the test's context: the process is to be signalled, not killed.
	p := &program{name: name, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(c.bin, name), args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.Env = append(os.Environ(), "HOME="+c.home, "KUBECONFIG="+kubeconfig)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, p.log.String())
		}
	})
	return p
}

// stop ends the program, which must end well and must not have been refused anything.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal %s: %v", p.name, err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v", p.name, err)
	}
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "forbidden") || strings.Contains(line, "panic:") {
			t.Errorf("%s says %s", p.name, line)
		}
	}
}
