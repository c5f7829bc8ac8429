package cases

import (
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/bench/internal/load"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGoals(t *testing.T) {
	nan := math.NaN()
	for _, tc := range []struct {
		goal              Goal
		text              string
		upstream, gapless float64
		met               string
	}{
		{Goal{}, "", 1, 2, ""},
		{Ratio(1. / 25), "≤ 1/25", 100, 4, "yes"},
		{Ratio(1. / 25), "≤ 1/25", 100, 4.1, "**no**"},
		{Ratio(0.4), "≤ 0.4x", 10, 4, "yes"},
		{Ratio(0.4), "≤ 0.4x", nan, 4, "?"},
		{Times(2.5), "≥ 2.5x", 100, 250, "yes"},
		{Times(2.5), "≥ 2.5x", 100, 249, "**no**"},
		{AtMost(100), "≤ 100", nan, 100, "yes"},
		{AtMost(0), "≤ 0", 0, 1, "**no**"},
		{AtMost(0), "≤ 0", 0, nan, "?"},
	} {
		if got := tc.goal.String(); got != tc.text {
			t.Errorf("%q instead of %q", got, tc.text)
		}
		if got := tc.goal.met(tc.upstream, tc.gapless); got != tc.met {
			t.Errorf("%s with %g and %g: %q instead of %q", tc.goal, tc.upstream, tc.gapless, got, tc.met)
		}
	}
}

func TestTheReportShowsMediansAndRatios(t *testing.T) {
	report := &Report{}
	row := report.row(Case{
		Name: "x", Title: "some work",
		Metrics: []Metric{{Name: "cpu", Unit: "us", Goal: Ratio(0.1)}, {Name: "rate", Goal: Times(2)}},
	})
	for _, v := range []float64{300, 100, 200} {
		row.add(peer.Upstream, Sample{Values: map[string]float64{"cpu": v, "rate": v}})
		row.add(peer.Gapless, Sample{Values: map[string]float64{"cpu": v / 20, "rate": v}, Notes: nil})
	}
	row.add(peer.Upstream, Sample{Notes: []string{"something was odd"}})
	var out strings.Builder
	report.Markdown(&out)
	for _, want := range []string{
		"| some work | cpu | 200 us | 10 us | 1/20 | ≤ 1/10 | yes |",
		"|  | rate | 200 | 200 | 1x | ≥ 2x | **no** |",
		"- x, run 4: something was odd",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestFaultsOfGaplessFailTheCase(t *testing.T) {
	for _, tc := range []struct {
		name    string
		verdict load.Verdict
		behind  int
		fails   bool
	}{
		{"none", load.Verdict{}, 0, false},
		{"a lost event", load.Verdict{Missing: 1}, 0, true},
		{"a cut watch", load.Verdict{Cut: 1}, 0, true},
		{"a watch without its last event", load.Verdict{}, 1, true},
	} {
		for _, name := range []string{peer.Gapless, peer.Upstream} {
			r := &Run{Server: &peer.Server{Program: peer.Program{Name: name}}}
			s := Sample{Values: map[string]float64{}}
			err := r.judge(&s, tc.verdict, tc.behind)
			if (err != nil) != (tc.fails && name == peer.Gapless) || (len(s.Notes) > 0) != (tc.fails && name == peer.Upstream) {
				t.Errorf("%s, %s: error %v, notes %v", tc.name, name, err, s.Notes)
			}
		}
	}
}

func TestEveryCaseHasAUniqueNameAndAGoal(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		goals := 0
		for _, m := range c.Metrics {
			if m.Goal != (Goal{}) {
				goals++
			}
		}
		if seen[c.Name] || goals == 0 || c.Run == nil {
			t.Errorf("case %q: seen %t, %d goals", c.Name, seen[c.Name], goals)
		}
		seen[c.Name] = true
	}
}
