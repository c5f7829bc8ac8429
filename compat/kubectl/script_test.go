package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gapless-io/gapless/compat/harness"
)

// built has the kubectl of each version that a test has asked for: to link one takes seconds.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "kubectl-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// build builds kubectl, once, from a directory with a module of its own, and returns the directory that has the program.
func build(t *testing.T, kubectl string) string {
	t.Helper()
	bin := filepath.Join(built, kubectl)
	if _, err := os.Stat(filepath.Join(bin, "kubectl")); err == nil {
		return bin
	}
	program, err := harness.Build(t.Context(), bin, filepath.Join(harness.Root(), kubectl), ".")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	if filepath.Base(program) != "kubectl" {
		if err := os.Rename(program, filepath.Join(bin, "kubectl")); err != nil {
			t.Fatalf("rename a file: %v", err)
		}
	}
	return bin
}

// server builds gapless, into a directory of the test, and returns the program's path.
func server(t *testing.T) string {
	t.Helper()
	program, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return program
}

// TestKubectl runs each script of testdata/script against a server of its own.
// Besides testscript's own commands there are
//
//	watch NAME COMMAND ARGS...   starts a command that runs until the end
//	await NAME REGEXP            waits until it has printed a line that matches
//	never NAME REGEXP            claims that it has printed no such line
//	ended NAME                   waits until it has ended by itself, with success
//	save VARIABLE                keeps the last output in a variable
func TestKubectl(t *testing.T) {
	run(t, site{gapless: server(t), kubectl: newest, dir: "testdata/script"})
}

var newest = version{minor: 37, dir: "compat/kubectl"}

// version is a version of kubectl: 1.minor.
type version struct {
	minor int
	dir   string // of the module that it is built from
}

// feature is something that not every version of kubectl has, and a condition of the
// scripts by its name: where it is absent, the script says what happens instead, or
// skips the command for the reason that is given here.
type feature struct {
	since int // the first minor version that has it
	until int // the first that no longer has it, or 0
	why   string
}

var features = map[string]feature{
	"client-validation": {
		until: 24,
		why: "kubectl checks manifests itself, with OpenAPI v2, before it sends them; since 1.24 it leaves that " +
			"to a server that can",
	},
	"stable-batch": {
		since: 21, why: "kubectl 1.20 creates a CronJob of batch/v1beta1, which clusters serve no more since 1.25",
	},
	"stable-policy": {
		since: 22, why: "kubectl 1.20 creates a PodDisruptionBudget of policy/v1beta1, which clusters serve no more since 1.25",
	},
	"managed-fields": {since: 21, why: "kubectl 1.20 shows managedFields always"},
	"wait-gone":      {since: 22, why: "kubectl wait --for=delete ends with an error if the object is gone already"},
	"wait-jsonpath":  {since: 23, why: "kubectl wait knows conditions and deletions only"},
	"debug": {
		since: 23, why: "kubectl debug writes the subresource ephemeralcontainers as it was before Kubernetes 1.22",
	},
	"create-token":   {since: 24, why: "kubectl create token is of 1.24"},
	"subresource":    {since: 24, why: "the flag --subresource is of 1.24"},
	"validate-words": {since: 24, why: "--validate is yes or no; strict, warn and ignore are of 1.24"},
	"events":         {since: 26, why: "kubectl events is of 1.26"},
	"takes-over": {
		since: 26, why: "kubectl apply --server-side takes over the fields that were applied by the client since 1.26",
	},
	"auth-whoami": {since: 27, why: "kubectl auth whoami is of 1.27"},
	"plain-version": {
		until: 24,
		why:   "kubectl that is built from its module has no version of its own to compare, and ends with an error since 1.24",
	},
	"wait-create": {since: 31, why: "kubectl wait --for=create is of 1.31"},
}

// has says whether the version has a feature, by its name.
func (v version) has(name string) (bool, error) {
	f, known := features[name]
	if !known {
		return false, fmt.Errorf("the condition %q is not in the table features", name)
	}
	return v.minor >= f.since && (f.until == 0 || v.minor < f.until), nil
}

// TestEveryVersionOfKubectlNeedsNoFlags runs each script of testdata/versions with each
// version of kubectl.
func TestEveryVersionOfKubectlNeedsNoFlags(t *testing.T) {
	gapless := server(t)
	for _, v := range []version{
		{minor: 20, dir: "compat/kubectl/v120"},
		{minor: 24, dir: "compat/kubectl/v124"},
		{minor: 28, dir: "compat/kubectl/v128"},
		{minor: 32, dir: "compat/kubectl/v132"},
		newest,
	} {
		t.Run(fmt.Sprintf("1.%d", v.minor), func(t *testing.T) {
			run(t, site{gapless: gapless, kubectl: v, dir: "testdata/versions"})
		})
	}
}

// site is what scripts run with.
type site struct {
	gapless string // the program
	kubectl version
	dir     string   // of the scripts, or
	scripts []string // their files
	// kubeconfig returns the kubeconfig to use instead of the server's; nil: the server's.
	kubeconfig func(t testing.TB, of string) string
}

func run(t *testing.T, on site) {
	t.Helper()
	play(t, on, nil, func(env *testscript.Env) error {
		tb := env.T().(testing.TB) //nolint:forcetypeassert // testscript.Run was given one
		s := harness.StartProgram(tb, on.gapless, "--bootstrap", "cluster")
		kubeconfig := s.Kubeconfig
		if on.kubeconfig != nil {
			kubeconfig = on.kubeconfig(tb, s.Kubeconfig)
		}
		env.Setenv("PATH", filepath.Dir(on.gapless)+string(filepath.ListSeparator)+env.Getenv("PATH"))
		env.Setenv("KUBECONFIG", kubeconfig)
		env.Setenv("SERVER", s.URL)
		return nil
	})
}

// handlers are commands of scripts, by name.
type handlers = map[string]func(ts *testscript.TestScript, neg bool, args []string)

// play runs scripts, with commands besides those above. serve starts the server of one script.
func play(t *testing.T, on site, further handlers, serve func(*testscript.Env) error) {
	t.Helper()
	bin := build(t, on.kubectl.dir)
	all := handlers{"watch": startWatch, "await": await, "never": never, "ended": ended, "save": save}
	maps.Copy(all, further)
	testscript.Run(t, testscript.Params{
		Dir: on.dir, Files: on.scripts,
		Condition: on.kubectl.has,
		Setup: func(env *testscript.Env) error {
			manifests, err := filepath.Abs("testdata/manifests")
			if err != nil {
				return err
			}
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("BIN", bin)
			env.Setenv("MANIFESTS", manifests)
			env.Values[watchesKey] = map[string]*watch{}
			return serve(env)
		},
		Cmds: all,
	})
}

const watchesKey = "watches"

// watch is a command in the background and what it has printed so far.
type watch struct {
	mu sync.Mutex
	// mu guards out.
	out bytes.Buffer

	done chan struct{} // closed when the command has ended
	err  error         // of the command, then
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

func (w *watch) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.String()
}

func startWatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: watch NAME COMMAND ARGS...")
	}
	w := &watch{done: make(chan struct{})}
	// killed at the script's end
	cmd := exec.CommandContext(context.Background(), filepath.Join(ts.Getenv("BIN"), args[1]), args[2:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "HOME="+ts.Getenv("HOME"))
	cmd.Stdout, cmd.Stderr = w, w
	ts.Check(cmd.Start())
	go func() { // ends with the command
		w.err = cmd.Wait()
		close(w.done)
	}()
	ts.Defer(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-w.done
		if text := w.text(); text != "" {
			ts.Logf("[%s]\n%s", args[0], text)
		}
	})
	watches(ts)[args[0]] = w
}

func watches(ts *testscript.TestScript) map[string]*watch {
	all, _ := ts.Value(watchesKey).(map[string]*watch)
	return all
}

func find(ts *testscript.TestScript, neg bool, args []string) (*watch, *regexp.Regexp) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await|never NAME REGEXP")
	}
	w := watches(ts)[args[0]]
	if w == nil {
		ts.Fatalf("there is no watch %q", args[0])
	}
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	return w, pattern
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	w, pattern := find(ts, neg, args)
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !pattern.MatchString(w.text()) {
		select {
		case <-tick.C:
		case <-deadline.C:
			ts.Fatalf("%s did not print %q in 30 s, but\n%s", args[0], args[1], w.text())
		}
	}
}

func never(ts *testscript.TestScript, neg bool, args []string) {
	w, pattern := find(ts, neg, args)
	if line := pattern.FindString(w.text()); line != "" {
		ts.Fatalf("%s printed %q", args[0], line)
	}
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || watches(ts)[args[0]] == nil {
		ts.Fatalf("usage: ended NAME")
	}
	w := watches(ts)[args[0]]
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	select {
	case <-w.done:
		if w.err != nil {
			ts.Fatalf("%s has ended with %v", args[0], w.err)
		}
	case <-deadline.C:
		ts.Fatalf("%s goes on for 30 s", args[0])
	}
}

func save(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: save VARIABLE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}
