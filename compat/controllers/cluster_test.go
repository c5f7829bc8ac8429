package controllers

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// build builds gapless, and has kubectl and the tools of this module beside it. These stay
// outside the checkout, so that they are linked only once.
func build(t *testing.T) string {
	t.Helper()
	bin, tools := t.TempDir(), harness.CacheDir(t, "controllers")
	if _, err := harness.Build(t.Context(), bin, harness.Root(), "cmd/gapless"); err != nil {
		t.Fatalf("build: %v", err)
	}
	for dir, pkg := range map[string]string{".": "tool", filepath.Join(harness.Root(), "compat/kubectl"): "."} {
		harness.Must(t, dir, []string{"GOBIN=" + tools, "GOWORK=auto"}, "go", "install", "-ldflags=-s -w", pkg)
	}
	for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kwok", "kwokctl", "kubectl"} {
		if err := os.Symlink(filepath.Join(tools, name), filepath.Join(bin, name)); err != nil {
			t.Fatalf("make a link: %v", err)
		}
	}
	return bin
}

// stages returns the files of kwok's own module that say what becomes of nodes and pods.
func stages(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-json", "sigs.k8s.io/kwok").Output()
	if err != nil {
		t.Fatalf("run the command: %v", err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	var files []string
	for _, kind := range []string{"node", "pod"} {
		found, err := filepath.Glob(filepath.Join(module.Dir, "kustomize/stage", kind, "fast", kind+"-*.yaml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("the stages of kwok for a %s: %v, %v", kind, found, err)
		}
		files = append(files, found...)
	}
	return files
}

// cluster is a server with upstream's programs.
type cluster struct {
	bin, home string
	server    *harness.Server
	programs  []*program
}

// program is one of them, which runs until the test ends.
type program struct {
	name string
	cmd  *exec.Cmd
	log  harness.Printed
}

// startCluster starts all of it, with flags for the server and the list of controllers for
// kube-controller-manager.
func startCluster(t *testing.T, bin, controllers string, flags ...string) *cluster {
	t.Helper()
	c := &cluster{bin: bin, home: t.TempDir()}
	c.server = harness.StartProgram(t, filepath.Join(bin, "gapless"), flags...)
	kubeconfig := "--kubeconfig=" + c.server.Kubeconfig
	c.start(t, "kube-controller-manager", kubeconfig, "--leader-elect=false", "--secure-port=0", "--controllers="+controllers,
		// a machine that is busy for 50 s would lose its nodes, and with them all pods
		"--node-monitor-grace-period=1h",
		// its default is a directory of the machine, which it makes
		"--flex-volume-plugin-dir="+filepath.Join(c.home, "flexvolume"))
	c.start(t, "kube-scheduler", kubeconfig, "--leader-elect=false", "--secure-port=0")
	args := []string{kubeconfig, "--manage-all-nodes"}
	for _, file := range stages(t) {
		args = append(args, "--config="+file)
	}
	c.start(t, "kwok", args...)
	return c
}

func (c *cluster) start(t *testing.T, name string, args ...string) {
	t.Helper()
	// Not to end with the test's context: the process is to be signalled, not killed.
	p := &program{name: name, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(c.bin, name), args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.Env = append(os.Environ(), "HOME="+c.home)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	c.programs = append(c.programs, p)
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, p.log.String())
		}
	})
}

// stop ends the program, unless it was stopped before.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal %s: %v", p.name, err)
	}
	end := ""
	if err := p.cmd.Wait(); err != nil {
		end = err.Error()
	}
	if want := ends()[p.name]; end != want {
		t.Errorf("%s ended with %q, want %q", p.name, end, want)
	}
}

// ends says how the programs end after SIGTERM, without the election of a leader.
func ends() map[string]string {
	return map[string]string{
		"kube-controller-manager": "signal: terminated", // it does not handle the signal
		"kube-scheduler":          "exit status 1",      // "finished without leader elect"
		"kwok":                    "",
	}
}

// command is kubectl with arguments that are separated by spaces.
func (c *cluster) command(t *testing.T, line string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.bin, "kubectl"), strings.Fields(line)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.server.Kubeconfig, "HOME="+c.home)
	return cmd
}

// kubectl runs kubectl, which must succeed, and returns what it printed.
func (c *cluster) kubectl(t *testing.T, line string) string {
	t.Helper()
	out, err := c.command(t, line).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", line, err, out, c.everything(t))
	}
	return strings.TrimSpace(string(out))
}

// refused runs kubectl, which must fail, and returns what it printed.
func (c *cluster) refused(t *testing.T, line string) string {
	t.Helper()
	out, err := c.command(t, line).CombinedOutput()
	if err == nil {
		t.Fatalf("kubectl %s succeeds:\n%s", line, out)
	}
	return string(out)
}

// becomes waits until kubectl prints something.
func (c *cluster) becomes(t *testing.T, line, want string) {
	t.Helper()
	harness.Eventually(t, "kubectl "+line+" prints "+want, func() bool {
		out, err := c.command(t, line).Output()
		return err == nil && strings.TrimSpace(string(out)) == want
	})
}

// everything is the state of the cluster, for the message about a failure.
func (c *cluster) everything(t *testing.T) string {
	t.Helper()
	out, err := c.command(t, "get nodes,all,endpointslices,events --all-namespaces --output=wide").CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}
