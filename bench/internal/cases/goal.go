package cases

import (
	"fmt"
	"math"
)

// Goal says what a metric of gapless must be. The zero Goal is none.
type Goal struct {
	kind  goalKind
	value float64
}

type goalKind int

const (
	none goalKind = iota
	ratioAtMost
	ratioAtLeast
	atMost
)

// Ratio is met by a gapless that needs at most this part of what upstream needs.
func Ratio(r float64) Goal { return Goal{ratioAtMost, r} }

// Times is met by a gapless that does at least this many times what upstream does.
func Times(r float64) Goal { return Goal{ratioAtLeast, r} }

// AtMost is met by a gapless that needs at most this, whatever upstream needs.
func AtMost(v float64) Goal { return Goal{atMost, v} }

// String says the goal as the table has it; empty for none.
func (g Goal) String() string {
	switch g.kind {
	case none:
		return ""
	case ratioAtMost:
		if n := math.Round(1 / g.value); math.Abs(1/g.value-n) < 1e-9 && n > 2 {
			return fmt.Sprintf("≤ 1/%.0f", n)
		}
		return fmt.Sprintf("≤ %gx", g.value)
	case ratioAtLeast:
		return fmt.Sprintf("≥ %gx", g.value)
	case atMost:
		return fmt.Sprintf("≤ %g", g.value)
	}
	return "?"
}

// met reports whether it is; upstream is not a number if it was not measured.
func (g Goal) met(upstream, gapless float64) string {
	if g.kind == none {
		return ""
	}
	if math.IsNaN(gapless) || g.kind != atMost && math.IsNaN(upstream) {
		return "?"
	}
	ok := false
	switch g.kind {
	case none:
	case ratioAtMost:
		ok = gapless <= g.value*upstream
	case ratioAtLeast:
		ok = gapless >= g.value*upstream
	case atMost:
		ok = gapless <= g.value
	}
	if ok {
		return "yes"
	}
	return "**no**"
}
