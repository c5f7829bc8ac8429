package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/gaplesstest"
)

// deployed reads a file of the directory deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	return string(text)
}

// checkServe checks a command line of gapless serve, without running it.
func checkServe(t *testing.T, args []string) {
	t.Helper()
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("the command line %q is not one of serve", args)
	}
	cmd := newServe(streams{})
	if err := cmd.ParseFlags(args[1:]); err != nil {
		t.Errorf("the flags of %q: %v", args, err)
	}
	if left := cmd.Flags().Args(); len(left) > 0 {
		t.Errorf("the command line has arguments that are no flags: %q", left)
	}
}

func TestTheManifestsOfReplicasAreWhatAClusterAccepts(t *testing.T) {
	text := deployed(t, "replicas.yaml")
	gaplesstest.New(t).Apply(t, text)
	checked := 0
	for object := range strings.SplitSeq(text, "\n---\n") {
		var of struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct{ Args []string }
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(object), &of); err != nil {
			t.Fatalf("read a manifest: %v", err)
		}
		for _, container := range of.Spec.Template.Spec.Containers {
			checkServe(t, container.Args)
			checked++
		}
	}
	if checked != 1 {
		t.Errorf("%d containers were found", checked)
	}
}

// TestTheUnitOfSystemdIsValid: as far as systemd itself can tell, where it is installed.
func TestTheUnitOfSystemdIsValid(t *testing.T) {
	text := deployed(t, "gapless.service")
	found := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.+)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the unit starts nothing")
	}
	checkServe(t, strings.Fields(found[2]))
	variables := regexp.MustCompile(`(?m)^(GAPLESS_[A-Z_]+=\S*)$`).FindAllString(deployed(t, "README.md"), -1)
	if unknown := unknownVariables(newRoot(streams{}), variables); len(unknown) > 0 || len(variables) < 5 {
		t.Errorf("of the variables %q these are of no flag: %q", variables, unknown)
	}
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: only the command line and the variables were checked")
		return
	}
	unit := filepath.Join(t.TempDir(), "gapless.service")
	own, err := os.Executable() // one that exists, because the program is not installed here
	if err != nil {
		t.Fatalf("find a program: %v", err)
	}
	if err := os.WriteFile(unit, []byte(strings.Replace(text, found[1], own, 1)), 0o600); err != nil {
		t.Fatalf("write the unit: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(out), "gapless.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
