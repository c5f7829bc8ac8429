package helm_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/compat/harness"
)

// deployed is the directory with the charts of gapless.
func deployed() string { return filepath.Join(harness.Root(), "deploy", "charts") }

// accepted checks that gapless takes the command line of the containers of a Deployment or a StatefulSet: it asks for
// help with it, which is given only if all flags and their values can be read.
func accepted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: accepted PATH")
	}
	var workload struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Args []string }
				}
			}
		}
	}
	ts.Check(json.Unmarshal([]byte(await(ts, args[0], 200)), &workload))
	containers := workload.Spec.Template.Spec.Containers
	if len(containers) != 1 || len(containers[0].Args) < 5 {
		ts.Fatalf("%s has other containers than one with flags: %+v", args[0], containers)
	}
	line := append(containers[0].Args, "--help")
	ts.Check(ts.Exec("gapless", line...))
}

// sameRules compares the rules of a ClusterRole with those that gapless relay manifests prints.
func sameRules(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: same-rules PATH [FLAG …]")
	}
	type role struct {
		Kind  string
		Rules []map[string][]string
	}
	var got, want role
	ts.Check(json.Unmarshal([]byte(await(ts, args[0], 200)), &got))
	gapless, err := exec.LookPath(filepath.Join(ts.Getenv("BIN"), "gapless"))
	ts.Check(err)
	//nolint:gosec,noctx // the program was built for the test, and ends at once
	out, err := exec.Command(gapless, append([]string{"relay", "manifests", "--image=x"}, args[1:]...)...).Output()
	ts.Check(err)
	for document := range bytes.SplitSeq(out, []byte("---\n")) {
		var r role
		ts.Check(yaml.Unmarshal(document, &r))
		if r.Kind == "ClusterRole" {
			want = r
		}
	}
	if len(want.Rules) == 0 || !reflect.DeepEqual(got.Rules, want.Rules) {
		ts.Fatalf("the chart's rules are\n%v\ngapless relay manifests has\n%v", got.Rules, want.Rules)
	}
	ts.Logf("%d rules, as %s", len(want.Rules), strings.Join(args[1:], " "))
}
