package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/conformance/differential/play"
)

// none is the value of a fact that a transcript does not have.
const none = "(none)"

// Difference is a fact that two transcripts do not share.
type Difference struct {
	Script, Case string
	Line         int
	Text         string
	Part         string
	// Upstream and Gapless are the values; "(none)" where there is no such fact.
	Upstream, Gapless string
}

// String is the difference as a pattern of the table would have it, and its step.
func (d Difference) String() string {
	return fmt.Sprintf("%s | %s | %s | %.300s | %.300s\n\t(line %d: %s)",
		d.Script, d.Case, d.Part, d.Upstream, d.Gapless, d.Line, d.Text)
}

// Differences compares two transcripts of a script, fact by fact.
func Differences(name string, upstream, gapless play.Transcript) []Difference {
	type key struct {
		line int
		part string
	}
	found := map[key]*Difference{}
	var order []*Difference
	at := func(f Fact) *Difference {
		k := key{line: f.Line, part: f.Part}
		if found[k] == nil {
			found[k] = &Difference{
				Script: name, Case: f.Case, Line: f.Line, Text: f.Text, Part: f.Part, Upstream: none, Gapless: none,
			}
			order = append(order, found[k])
		}
		return found[k]
	}
	for _, f := range Facts(upstream) {
		at(f).Upstream = f.Value
	}
	for _, f := range Facts(gapless) {
		at(f).Gapless = f.Value
	}
	var differ []Difference
	for _, d := range order {
		if d.Upstream != d.Gapless {
			differ = append(differ, *d)
		}
	}
	slices.SortStableFunc(differ, func(a, b Difference) int { return cmp.Compare(a.Line, b.Line) })
	return differ
}

// Summary says in a few words what a transcript shows in a case: the codes, the
// frames, the ending.
func Summary(name string, t play.Transcript) string {
	var words []string
	for _, f := range Facts(t) {
		event := strings.HasPrefix(f.Part, "frame ") || strings.HasPrefix(f.Part, "line ")
		switch {
		case f.Case != name:
		case event && strings.HasSuffix(f.Part, ".type") && strings.Count(f.Part, ".") == 1,
			f.Part == "code", f.Part == "end how", f.Part == "said", f.Part == "failed", f.Part == "stopped":
			words = append(words, f.Value)
		}
	}
	var out []string
	for i := 0; i < len(words); {
		n := i
		for n < len(words) && words[n] == words[i] {
			n++
		}
		if word := words[i]; n-i > 1 {
			out = append(out, fmt.Sprintf("%d×%s", n-i, word))
		} else {
			out = append(out, word)
		}
		i = n
	}
	return strings.Join(out, " ")
}
