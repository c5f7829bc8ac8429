package main

import (
	"encoding/json"
	"strings"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestDescriptionHasEachCommandThatHelpShows(t *testing.T) {
	code, out, stderr := command(t, "describe")
	var root described
	if err := json.Unmarshal([]byte(out), &root); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
	}
	var names []string
	flags := map[string][]string{}
	var visit func(path string, d described)
	visit = func(path string, d described) {
		if d.Short == "" {
			t.Errorf("%s has no short text", path)
		}
		names = append(names, path)
		for _, f := range d.Flags {
			flags[path] = append(flags[path], f.Name)
			if f.Usage == "" || f.Type == "" {
				t.Errorf("the flag --%s of %s has no text or no type", f.Name, path)
			}
		}
		for _, below := range d.Commands {
			name, _, _ := strings.Cut(below.Use, " ")
			visit(path+" "+name, below)
		}
	}
	visit("gapless", root)
	all := strings.Join(names, "\n")
	for _, want := range []string{"gapless serve", "gapless relay manifests", "gapless completion bash", "gapless fault add"} {
		if !strings.Contains(all+"\n", want+"\n") {
			t.Errorf("there is no %s in\n%s", want, all)
		}
	}
	if strings.Contains(all, "describe") {
		t.Errorf("a hidden command is described:\n%s", all)
	}
	if got := strings.Join(flags["gapless serve"], " "); !strings.Contains(got, "data-dir") || !strings.Contains(got, "help") {
		t.Errorf("the flags of serve are %s", got)
	}
}

func TestVersionLineHasTheCommitAndItsDateIfTheyAreKnown(t *testing.T) {
	v := apiversion.Info{
		GitVersion: "v1.37.2+gapless-v0.1.0", GitTreeState: "clean", GoVersion: "go1.26", Platform: "linux/arm64",
	}
	if got, want := versionLine(v), "gapless v1.37.2+gapless-v0.1.0 (go1.26, linux/arm64)\n"; got != want {
		t.Errorf("without a commit: %q, want %q", got, want)
	}
	v.GitCommit, v.BuildDate = "0123456789abcdef", "2026-11-27T02:12:54Z"
	want := "gapless v1.37.2+gapless-v0.1.0 (commit 0123456789ab of 2026-11-27T02:12:54Z, go1.26, linux/arm64)\n"
	if got := versionLine(v); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	v.GitTreeState = "dirty"
	if got := versionLine(v); !strings.Contains(got, "0123456789ab, changed, of") && !strings.Contains(got, "changed of") {
		t.Errorf("a changed tree: %q", got)
	}
}
