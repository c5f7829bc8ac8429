package growth

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// logarithmic is the greatest exponent that O(log n) is taken to have at these sizes, with what measurements vary by.
const logarithmic = 0.2

// Page returns docs/growth.md.
func (r *Record) Page() string {
	var b strings.Builder
	b.WriteString(`# How costs grow

<!-- written by: cd bench && go run ./cmd/growth --page -->

What operations cost the server (` + "`gapless serve`" + `, with fsync and TLS) while one dimension of what it holds grows and the
others stay small. A value is the processor time of the whole server process, also for what it does in the background
meanwhile, until the answer and the events have arrived: the median of five windows, or the mean over the last quarter
of what was created for a size. Objects are ConfigMaps with 300 bytes of data.

The slope is the exponent of n, fitted by least squares of the logarithms to the largest four sizes: 0 is a constant, 1 is
in proportion to n, and O(log n) is about 0.1 at these sizes. Up to ` + fmt.Sprint(logarithmic) +
		` counts as O(log n), because measurements vary.
A slope below 0 is a fixed cost that more share, or garbage that is not collected yet: memory is what is resident once it
has settled, less what was there before the first. A fixed cost also hides a part that grows: compare the last two sizes.
` + "`cd bench && go run ./cmd/growth --record`" + ` measures again, in about half an hour, and keeps
[all points](../bench/log/growth.json).

`)
	b.WriteString(r.worse())
	for _, d := range Dimensions() {
		i := slices.IndexFunc(r.Dimensions, func(m Measured) bool { return m.Name == d.Name })
		if i < 0 {
			fmt.Fprintf(&b, "\n## %s\nNot measured.\n", d.Title)
			continue
		}
		r.Dimensions[i].table(&b, d)
	}
	return b.String()
}

// worse lists what is worse than O(log n).
func (r *Record) worse() string {
	var b strings.Builder
	b.WriteString("## Worse than O(log n)\n")
	found := false
	for _, m := range r.Dimensions {
		for _, c := range m.sorted() {
			slope := Slope(m.Sizes, c.Values)
			if !(slope > logarithmic) || c.Unit == rate {
				continue
			}
			found = true
			line := fmt.Sprintf("- **%s: %s**, n to the power of %.2f.", m.Name, c.Operation, slope)
			if cause := why(m.Name, c.Operation); cause != "" {
				line += " " + cause
			}
			b.WriteString(wrap(line, 125) + "\n")
		}
	}
	if !found {
		b.WriteString("Nothing.\n")
	}
	return b.String()
}

// rate is the unit of what is better when it grows.
const rate = "/s"

// sorted returns the curves, the steepest first.
func (m *Measured) sorted() []Curve {
	all := slices.Clone(m.Curves)
	slices.SortStableFunc(all, func(a, b Curve) int {
		as, bs := Slope(m.Sizes, a.Values), Slope(m.Sizes, b.Values)
		switch {
		case a.Unit == rate != (b.Unit == rate):
			if a.Unit == rate {
				return 1
			}
			return -1
		case as > bs, math.IsNaN(bs) && !math.IsNaN(as):
			return -1
		case as < bs, math.IsNaN(as) && !math.IsNaN(bs):
			return 1
		}
		return 0
	})
	return all
}

// table writes the section of a dimension.
func (m *Measured) table(b *strings.Builder, d Dimension) {
	fmt.Fprintf(b, "\n## %s\n", d.Title)
	if largest := d.Sizes[len(d.Sizes)-1]; m.Sizes[len(m.Sizes)-1] < largest {
		fmt.Fprintf(b, "%d were not reached.\n\n", largest)
	}
	fmt.Fprintf(b, "| %s |", m.Name)
	for _, n := range m.Sizes {
		fmt.Fprintf(b, " %s |", grouped(n))
	}
	b.WriteString(" slope |\n|---|" + strings.Repeat("--:|", len(m.Sizes)+1) + "\n")
	for _, c := range m.sorted() {
		fmt.Fprintf(b, "| %s, %s |", c.Operation, c.Unit)
		for _, v := range c.Values {
			if v == 0 {
				b.WriteString(" – |")
				continue
			}
			fmt.Fprintf(b, " %s |", significant(v))
		}
		slope := fmt.Sprintf("%.2f", Slope(m.Sizes, c.Values))
		if slope == "-0.00" {
			slope = "0.00"
		}
		fmt.Fprintf(b, " %s |\n", slope)
	}
	fmt.Fprintf(b, "\nMeasured on %s, commit %s, %s.\n", m.Date, m.Commit, m.Machine)
}

// significant renders a value with three digits.
func significant(v float64) string {
	for _, digits := range []int{0, 1, 2} {
		if math.Abs(v) >= math.Pow10(2-digits) {
			return fmt.Sprintf("%.*f", digits, v)
		}
	}
	return fmt.Sprintf("%.2g", v)
}

// grouped renders a number with a space before each three digits.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + " " + text[at:]
	}
	return text
}

// wrap breaks an item of a list into lines of at most so many bytes.
func wrap(text string, most int) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && width+1+len(word) > most:
			b.WriteString("\n  ")
			width = 2
		case i > 0:
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String()
}
