package fault

import "testing"

func TestWhatIsNotForgottenEndsOnce(t *testing.T) {
	var e ending
	counts := map[string]int{}
	count := func(name string) func() { return func() { counts[name]++ } }
	e.at(count("kept"))
	e.at(count("forgotten"))()
	e.end()
	e.end()
	forget := e.at(count("late"))
	forget()
	if counts["kept"] != 1 || counts["forgotten"] != 0 || counts["late"] != 1 {
		t.Errorf("called %v, want what was kept and what came late once each", counts)
	}
}
