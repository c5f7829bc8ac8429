package helm_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gapless-io/gapless/compat/harness"
)

// programs builds gapless, helm3 and helm4 into a directory of the test.
func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if _, err := harness.Build(t.Context(), bin, harness.Root(), "cmd/gapless"); err != nil {
		t.Fatalf("build: %v", err)
	}
	for _, version := range []string{"3", "4"} {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", filepath.Join(bin, "helm"+version),
			"helm.sh/helm/v"+version+"/cmd/helm").CombinedOutput()
		if err != nil {
			t.Fatalf("build Helm %s: %v\n%s", version, err, out)
		}
	}
	return bin
}

// TestHelm runs each script of testdata/script with each version of Helm, $HELM, and those
// of testdata/both, which use both, once; each against a server of its own. The condition
// helm3 or helm4 is true. Besides testscript's own commands there are
//
//	get PATH              prints what the server answers, and waits until there is an answer
//	gone PATH             waits until the server answers 404
//	patch PATH FILE       sends a JSON merge patch
//	accepted PATH         checks that gapless takes the flags of a workload's container
//	same-rules PATH FLAG… compares a role with that of gapless relay manifests
//	rollout PATH          does what the controller of a Deployment does when all its pods are ready
func TestHelm(t *testing.T) {
	bin := programs(t)
	for name, scripts := range map[string]string{
		"helm3": "testdata/script", "helm4": "testdata/script", "both": "testdata/both",
	} {
		t.Run(name, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir: scripts,
				Condition: func(condition string) (bool, error) {
					switch condition {
					case "helm3", "helm4":
						return condition == name, nil
					}
					return false, fmt.Errorf("unknown condition %q", condition)
				},
				Setup: func(env *testscript.Env) error { return setUp(env, bin, name) },
				Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
					"get": get, "gone": gone, "patch": patch, "rollout": rollout, "accepted": accepted, "same-rules": sameRules,
				},
			})
		})
	}
}

func setUp(env *testscript.Env, bin, helm string) error {
	t, is := env.T().(testing.TB)
	if !is {
		return fmt.Errorf("a script runs without a test: %T", env.T())
	}
	s := harness.StartProgram(t, filepath.Join(bin, "gapless"), "--bootstrap", "cluster")
	charts, err := filepath.Abs("testdata/charts")
	if err != nil {
		return err
	}
	env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("KUBECONFIG", s.Kubeconfig)
	env.Setenv("HOME", env.WorkDir) // where Helm keeps its caches
	env.Setenv("CHARTS", charts)
	env.Setenv("DEPLOYED", deployed())
	env.Setenv("BIN", bin)
	env.Setenv("HELM", helm)
	env.Values[serverKey] = &api{url: s.URL, web: harness.Administrator(t, s).Client(t)}
	return nil
}
