package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/conformance/crash/linear"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReplayChecksAndDrawsASavedHistory(t *testing.T) {
	ops := []linear.Op{
		{Key: "a", Kind: linear.Create, Value: 1, RV: 10, Result: linear.OK, Call: 1, Return: 2},
		{Key: "a", Kind: linear.Replace, Value: 2, RV: 11, Result: linear.OK, Call: 3, Return: 4},
		{Key: "a", Kind: linear.Get, Value: 2, RV: 11, Result: linear.OK, Call: 5, Return: 6},
	}
	for _, c := range []struct {
		name    string
		falsify func()
		want    string
	}{
		{"as it was", func() {}, "Ok"},
		{"a stale read", func() { ops[2].Value, ops[2].RV = 1, 10 }, "Illegal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.falsify()
			path := filepath.Join(t.TempDir(), "history.json")
			if err := (linear.History{Seed: 3, Ops: ops}).Save(path); err != nil {
				t.Fatalf("save: %v", err)
			}
			var out strings.Builder
			if err := run(t.Context(), []string{"-replay", path}, &out); (err == nil) != (c.want == "Ok") {
				t.Errorf("it ended with %v", err)
			}
			if !strings.Contains(out.String(), c.want) || !strings.Contains(out.String(), "seed 3") {
				t.Errorf("it printed %q, want the verdict %s", out.String(), c.want)
			}
			if _, err := os.Stat(path + ".html"); err != nil {
				t.Errorf("look at a file: %v", err)
			}
		})
	}
}
