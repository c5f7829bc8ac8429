package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestThePageSaysWhatIsComputed(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"--record", "../../log/results.json"}, &out, t.Output()); err != nil {
		t.Fatalf("print the page: %v", err)
	}
	has, err := os.ReadFile("../../../docs/scale.md")
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	if out.String() != string(has) {
		t.Error("docs/scale.md is old: cd bench && go run ./cmd/scale > ../docs/scale.md")
	}
}

func TestOneTreeIsPlanned(t *testing.T) {
	var out bytes.Buffer
	args := []string{"--record", "../../log/results.json", "--watchers", "1000", "--changes", "2"}
	if err := run(args, &out, t.Output()); err != nil || !strings.Contains(out.String(), "| 1000 | 2 | 8 | 1 | 1000 |") {
		t.Errorf("%s, %v", out.String(), err)
	}
	if err := run(append(args, "--processors", "0"), &out, t.Output()); err == nil {
		t.Error("no processors are enough")
	}
}
