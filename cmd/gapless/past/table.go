package past

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table writes lines in columns, some at a time: what has been written is as wide as it was, what comes is as wide as
// it must be. The zero value has no head.
type table struct {
	out     io.Writer
	waiting [][]string
	widths  []int
}

func (t *table) add(words ...string) { t.waiting = append(t.waiting, words) }

// flush writes the lines that wait. The last column has no width.
func (t *table) flush() error {
	for _, words := range t.waiting {
		for len(t.widths) < len(words) {
			t.widths = append(t.widths, 0)
		}
		for i, word := range words {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(word))
		}
	}
	var text strings.Builder
	for _, words := range t.waiting {
		for i, word := range words {
			text.WriteString(word)
			if i < len(words)-1 {
				text.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(word)+2)) //nolint:mnd // between columns
			}
		}
		text.WriteByte('\n')
	}
	t.waiting = nil
	_, err := io.WriteString(t.out, text.String())
	return err
}

// Colours of terminals.
const (
	bold  = "1"
	red   = "31"
	green = "32"
	cyan  = "36"
)

// colored is a unified diff in colours, if the output has them.
func (p Program) colored(diff []byte) []byte {
	if !p.Color {
		return diff
	}
	var out strings.Builder
	for line := range strings.Lines(string(diff)) {
		color := ""
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
			color = bold
		case strings.HasPrefix(line, "@@"):
			color = cyan
		case strings.HasPrefix(line, "-"):
			color = red
		case strings.HasPrefix(line, "+"):
			color = green
		}
		if color == "" {
			out.WriteString(line)
			continue
		}
		fmt.Fprintf(&out, "\x1b[%sm%s\x1b[0m\n", color, strings.TrimSuffix(line, "\n"))
	}
	return []byte(out.String())
}
