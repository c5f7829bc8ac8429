package ending_test

import (
	"testing"

	"github.com/gapless-io/gapless/fault/internal/ending"
)

func TestWhatIsNotForgottenEndsOnce(t *testing.T) {
	var e ending.Ending
	counts := map[string]int{}
	count := func(name string) func() { return func() { counts[name]++ } }
	e.At(count("kept"))
	e.At(count("forgotten"))()
	e.End()
	e.End()
	forget := e.At(count("late"))
	forget()
	if counts["kept"] != 1 || counts["forgotten"] != 0 || counts["late"] != 1 {
		t.Errorf("called %v, want what was kept and what came late once each", counts)
	}
}
