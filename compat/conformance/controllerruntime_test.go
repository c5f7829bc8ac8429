package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

var update = flag.Bool("update", false, "write the lists of what fails in testdata again")

const controllerRuntime = "sigs.k8s.io/controller-runtime"

// TestControllerRuntimeSuites runs suites of controller-runtime, as the module cache
// has them, against the built program: one server for each, which the suite
// uses as an existing cluster.
func TestControllerRuntimeSuites(t *testing.T) {
	t.Parallel()
	gapless, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatal(err)
	}
	plain := module(t, controllerRuntime)
	changed, modfile := withReplacement(t, plain)
	for _, s := range []*suite{
		{name: "cache", pkg: "cache", dir: plain},
		{name: "cache-standin", pkg: "cache", dir: changed, modfile: modfile},
		{name: "client", pkg: "client", dir: plain},
		{name: "manager", pkg: "manager", dir: plain},
		{name: "controller", pkg: "controller", dir: plain},
		{name: "builder", pkg: "builder", dir: plain},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.build(t)
			s.judge(t, s.run(t, harness.StartProgram(t, gapless)), func(again []string) map[string]string {
				return s.run(t, harness.StartProgram(t, gapless), again...)
			})
		})
	}
}

// suite is a ginkgo suite: the tests of one package below controller-runtime's pkg.
type suite struct {
	name    string
	pkg     string
	dir     string // where controller-runtime is
	modfile string // a go.mod for this module that says so; "": its own does

	program string
}

func (s *suite) build(t *testing.T) {
	t.Helper()
	s.program = filepath.Join(t.TempDir(), "suite.test")
	args := []string{"test", "-c", "-o", s.program}
	if s.modfile != "" {
		args = append(args, "-modfile="+s.modfile)
	}
	run(t, "go", append(args, controllerRuntime+"/pkg/"+s.pkg)...)
}

// run runs the specs with these names, or all, and returns what each failed with, "" if
// it passed.
func (s *suite) run(t *testing.T, server *harness.Server, names ...string) map[string]string {
	t.Helper()
	begin := time.Now()
	report := filepath.Join(t.TempDir(), "report.json")
	args := []string{"-test.timeout=6m", "--ginkgo.seed=1", "--ginkgo.json-report=" + report}
	for _, name := range names {
		// What it is matched with begins with the suite's description.
		args = append(args, "--ginkgo.focus= "+regexp.QuoteMeta(strings.ReplaceAll(name, between, " "))+"$")
	}
	cmd := exec.CommandContext(t.Context(), s.program, args...)
	cmd.Dir = filepath.Join(s.dir, "pkg", s.pkg)
	cmd.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+server.Kubeconfig)
	said, err := cmd.CombinedOutput()
	results, reportErr := specs(report)
	if reportErr != nil {
		t.Fatalf("%v: %v\n%s", err, reportErr, said[max(0, len(said)-16<<10):])
	}
	passed := 0
	for _, failure := range results {
		if failure == "" {
			passed++
		}
	}
	t.Logf("%d of %d specs passed in %.0f s", passed, len(results), time.Since(begin).Seconds())
	return results
}

// judge compares results with the suite's list of what fails. again runs specs a second time,
// alone: the suites wait for other goroutines, as long as their authors' machines need.
func (s *suite) judge(t *testing.T, results map[string]string, again func([]string) map[string]string) {
	t.Helper()
	file := filepath.Join("testdata", "failures", s.name+".txt")
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	listed, err := readFailures(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	// More are no matter of chance.
	if surprises := unlisted(results, listed); len(surprises) > 0 && len(surprises) <= 10 && !*update {
		for name, failure := range again(surprises) {
			if failure == "" {
				t.Logf("passed when it ran again, alone: %s\n%s", name, results[name])
			}
			results[name] = failure
		}
	}
	if *update {
		listed = explained(results, listed)
		head := fmt.Sprintf("# What fails in suite %s of controller-runtime, and why. `go test -run Suites -update`\n# removes what passes, and adds what fails as %q until the reason is added.\n", s.name, strings.TrimSpace(unexplained))
		if err := os.WriteFile(file, []byte(writeFailures(head, listed)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, reason := range listed {
		if strings.HasPrefix(reason, unexplained) {
			t.Errorf("nobody has said why it fails: %s\n%s", name, reason)
		}
	}
	compare(t, results, listed)
}

// withReplacement copies controller-runtime, makes the replacement the informer that its cache
// uses by default. It returns where it is, and a go.mod for this module that says so.
func withReplacement(t *testing.T, from string) (dir, modfile string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, "pkg", "cache", "internal", "informers.go"),
		"newInformer := cache.NewSharedIndexInformer", "newInformer := standin.New",
		"import (", `import (
	standin "github.com/gapless-io/gapless/informer/clientgo"`)
	beside := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(beside, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	modfile = filepath.Join(beside, "go.mod")
	run(t, "go", "mod", "edit", "-replace="+controllerRuntime+"="+dir, modfile)
	return dir, modfile
}

// edit replaces each old text of a file, which must be there once, by the new one behind it.
func edit(t *testing.T, file string, oldNew ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(oldNew); i += 2 {
		if n := strings.Count(string(text), oldNew[i]); n != 1 {
			t.Fatalf("%s has %q %d times", file, oldNew[i], n)
		}
	}
	if err := os.WriteFile(file, []byte(strings.NewReplacer(oldNew...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}
