package cases

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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

// used returns how much of the goal a value takes: more than 1 misses it.
func (g Goal) used(upstream, gapless float64) float64 {
	switch {
	case g.met(upstream, gapless) == "yes" && gapless == 0:
		return 0
	case g.kind == ratioAtMost:
		return gapless / upstream / g.value
	case g.kind == ratioAtLeast:
		return g.value * upstream / gapless
	}
	return gapless / g.value
}

// MarshalText is the goal as the table has it.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (g *Goal) UnmarshalText(text []byte) error {
	*g = Goal{}
	sign, number, _ := strings.Cut(string(text), " ")
	parts, isPart := strings.CutPrefix(number, "1/")
	times, isTimes := strings.CutSuffix(parts, "x")
	value, err := strconv.ParseFloat(times, 64)
	switch {
	case len(text) == 0:
		return nil
	case err != nil:
		return fmt.Errorf("goal %q: %w", text, err)
	case sign == "≤" && isPart:
		*g = Ratio(1 / value)
	case sign == "≤" && isTimes:
		*g = Ratio(value)
	case sign == "≥" && isTimes:
		*g = Times(value)
	case sign == "≤":
		*g = AtMost(value)
	default:
		return fmt.Errorf("goal %q: want ≤ or ≥ and a number", text)
	}
	return nil
}
