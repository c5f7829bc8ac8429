package mix_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/conformance/apiserver/mix"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSeedsMakeTheSameScriptAgain(t *testing.T) {
	for seed := range uint64(50) {
		moves, first, last := mix.Generate(seed, 100)
		again, _, _ := mix.Generate(seed, 100)
		if diff := cmp.Diff(moves, again); diff != "" {
			t.Fatalf("seed %d made another script (-first +second):\n%s", seed, diff)
		}
		if last-first != 100 {
			t.Errorf("seed %d made %d moves, want 100", seed, last-first)
		}
		played, err := mix.Script("m", moves)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		printed, err := script.Parse("m", mix.Text(moves))
		if err != nil {
			t.Fatalf("seed %d: the printed script: %v", seed, err)
		}
		var steps []script.Step
		for _, c := range played.Cases {
			steps = append(steps, c.Steps...)
		}
		if diff := cmp.Diff(printed.Cases[0].Steps, steps); diff != "" {
			t.Errorf("seed %d: the printed script has other steps (-printed +played):\n%s", seed, diff)
		}
	}
}

func TestShrinkLeavesWhatFails(t *testing.T) {
	var moves []mix.Move
	for _, name := range strings.Fields("prepare a b c d e f g h i j") {
		moves = append(moves, mix.Move{Of: name})
	}
	left := mix.Shrink(moves, 1, func(moves []mix.Move) (still, more bool) {
		has := func(name string) bool {
			return slices.ContainsFunc(moves, func(m mix.Move) bool { return m.Of == name })
		}
		return has("c") && has("h"), true
	})
	if want := []mix.Move{{Of: "prepare"}, {Of: "c"}, {Of: "h"}}; !cmp.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}
