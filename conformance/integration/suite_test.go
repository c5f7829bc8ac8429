package integration

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/expected"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

var (
	update   = flag.Bool("update", false, "write the list of expected failures in testdata again")
	built    = flag.String("program", "", "a gapless program that is built already, instead of one from this checkout")
	compiled = flag.String("compiled", "", "a program of upstream's tests that is kept, and made if it is not there")
)

const list = "testdata/failures.txt"

// TestUpstreamsIntegrationTestsPass runs each of upstream's tests in a process of its own, so that it cannot end others,
// with servers of its own, over an etcd that all have in common.
func TestUpstreamsIntegrationTestsPass(t *testing.T) {
	w := newWorld(t)
	all := &expected.Results{}
	t.Run("all", func(t *testing.T) {
		for _, suite := range suites(testing.Short()) {
			for _, test := range w.tests[suite] {
				t.Run(flat(suite)+"."+test, func(t *testing.T) {
					t.Parallel()
					all.Add(w.play(t, suite, test))
				})
			}
		}
	})
	w.judge(t, all)
}

// world is what the tests have in common.
type world struct {
	program string // of upstream's tests
	from    string // the directory of the suites
	tests   map[string][]string
	listed  map[string]string // reasons of expected failures by test
	env     []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	gapless := *built
	var err error
	if gapless == "" {
		if gapless, err = harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless"); err != nil {
			t.Fatalf("build: %v", err)
		}
	}
	root := filepath.Join(harness.Root(), "conformance/apiserver/program")
	module := strings.TrimSpace(run(t, root, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"))
	w := &world{from: filepath.Join(module, "test/integration"), program: *compiled}
	if w.listed, err = expected.ReadList(list); err != nil {
		t.Fatalf("read list: %v", err)
	}
	maps.DeleteFunc(w.listed, func(name, _ string) bool {
		suite, _, _ := strings.Cut(name, ".")
		return !slices.ContainsFunc(suites(testing.Short()), func(s string) bool { return flat(s) == suite })
	})
	added, err := newOverlay(t.TempDir(), root, w.from)
	if err != nil {
		t.Fatalf("add upstream's tests: %v", err)
	}
	w.tests = added.calls
	if w.program == "" {
		w.program = filepath.Join(t.TempDir(), "integration.test")
	}
	if _, err := os.Stat(w.program); err != nil {
		file, err := added.file()
		if err != nil {
			t.Fatalf("add upstream's tests: %v", err)
		}
		run(t, root, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+file, "-o", w.program, "./integration/suites")
	}
	w.env = append(os.Environ(), "GAPLESS_PROGRAM="+gapless,
		"KUBE_INTEGRATION_ETCD_URL="+etcd.StartFor(t, etcd.Options{NoSync: true}).URL())
	return w
}

// play runs a test, and again if it fails and is not listed.
func (w *world) play(t *testing.T, suite, test string) *expected.Results {
	t.Helper()
	one := w.alone(t, suite, test)
	if *update {
		if failed := one.Surprises(w.listed); len(failed) > 0 {
			t.Logf("failed: %s\n%s", strings.Join(failed, "\n"), tail(one.Said, 6000))
		}
		return one
	}
	if wait := one.Surprises(w.listed); len(wait) > 0 {
		t.Logf("it runs again, since some wait no longer than upstream's machines need:\n%s\n%s",
			strings.Join(wait, "\n"), tail(one.Said, 3000))
		one = w.alone(t, suite, test)
	}
	for _, name := range one.Surprises(w.listed) {
		t.Errorf("failed, and is not listed: %s\n%s", name, tail(one.Said, 12000))
	}
	return one
}

// alone runs one test with its subtests.
func (w *world) alone(t *testing.T, suite, test string) *expected.Results {
	t.Helper()
	name := flat(suite) + "." + test
	limit := "-test.timeout=3m"
	if testing.Short() {
		limit = "-test.timeout=1m" // one that is expected to fail waits for ever
	}
	cmd := exec.CommandContext(t.Context(), w.program, "-test.v", limit,
		"-test.run=^TestUpstream$/^"+regexp.QuoteMeta(name)+"$")
	cmd.Dir, cmd.Env = filepath.Join(w.from, suite), append(slices.Clip(w.env), "TMPDIR="+t.TempDir())
	if slices.Contains(onDirectories(), suite) {
		cmd.Env = append(cmd.Env, "GAPLESS_DIRECTORIES="+t.TempDir())
	}
	// A test that ends by a panic leaves its servers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails when none is left
	}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("run %s: %v", name, err)
	}
	r := expected.ReadResults(strings.ReplaceAll(outer.ReplaceAllString(string(out), ""), "TestUpstream/", ""))
	r.Complete(name)
	return r
}

// outer are the lines about the test that calls all.
var outer = regexp.MustCompile(`(?m)^(=== RUN +|--- [A-Z]+: )TestUpstream( .*)?$`)

// judge fails for what the list does not say.
func (w *world) judge(t *testing.T, all *expected.Results) {
	t.Helper()
	passed, failed, skipped := all.Leaves()
	if *update {
		if err := expected.WriteList(list, "kube-apiserver", failed, w.listed); err != nil {
			t.Fatalf("write list: %v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.listed)) {
		if reason := w.listed[name]; strings.HasPrefix(reason, expected.Unexplained) {
			t.Errorf("nobody has said why it fails: %s", name)
		}
		if slices.Contains(passed, name) || !slices.Contains(failed, name) {
			t.Errorf("is listed, and did not fail: %s", name)
		}
	}
	known := len(failed) - len(all.Surprises(w.listed))
	t.Logf("%d passed, %d skipped, %d expected failures, %d other failures",
		len(passed), len(skipped), known, len(failed)-known)
}

// run runs a command that has to succeed in a directory, and returns what it printed.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, &stderr, append(os.Environ(), "GOWORK=auto")
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
	return "... " + s[len(s)-n:]
}
