package transition

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/kube"
)

var update = flag.Bool("update", false, "write testdata/table.md anew")

// situation is a state that the table knows, in words.
type situation struct {
	name string
	s    State
}

func situations() []situation {
	const rv = "9"
	picky := Defaults()
	picky.Stop4xx = true
	return []situation{
		{"idle", State{}},
		{"idle, no streaming lists", State{NoStream: true}},
		{"stopped, at 9", State{Phase: Stopped, RV: rv}},
		{"stopped, at 9, which was refused", State{Phase: Stopped, RV: rv, quorum: true}},
		{"waiting, then watching at 9", State{Phase: Waiting, Then: Watching, RV: rv}},
		{"waiting, then listing, never synced", State{Phase: Waiting, Then: Listing}},
		{"waiting, then listing, at 9", State{Phase: Waiting, Then: Listing, RV: rv}},
		{"waiting, then listing, 9 refused", State{Phase: Waiting, Then: Listing, RV: rv, quorum: true}},
		{
			"waiting, then listing, 9 refused, a token too",
			State{Phase: Waiting, Then: Listing, RV: rv, quorum: true, unpaged: true},
		},
		{"waiting, then streaming, at 9", State{Phase: Waiting, Then: Streaming, RV: rv}},
		{"waiting, then streaming, 9 refused", State{Phase: Waiting, Then: Streaming, RV: rv, quorum: true}},
		{"streaming, never synced", State{Phase: Streaming}},
		{"streaming, never synced, failed twice", State{Phase: Streaming, misses: 2}},
		{"streaming, never synced, Stop4xx", State{Phase: Streaming, Tuning: picky}},
		{"streaming, at 9", State{Phase: Streaming, RV: rv}},
		{"streaming, 9 refused", State{Phase: Streaming, RV: rv, quorum: true}},
		{"listing, never synced", State{Phase: Listing, NoStream: true}},
		{"listing, never synced, a token refused", State{Phase: Listing, NoStream: true, unpaged: true}},
		{"listing, never synced, 0 refused, Stop4xx", State{Phase: Listing, NoStream: true, quorum: true, Tuning: picky}},
		{"listing, at 9", State{Phase: Listing, NoStream: true, RV: rv}},
		{"listing, 9 refused", State{Phase: Listing, NoStream: true, RV: rv, quorum: true}},
		{"watching", State{Phase: Watching, RV: rv}},
		{"watching, after 3 failures", State{Phase: Watching, RV: rv, failures: 3}},
		{
			"watching, after twice the same trouble here",
			State{Phase: Watching, RV: rv, quick: 2, ahead: 2, broken: 2, failures: 2},
		},
		{"watching, after an outage", State{Phase: Watching, RV: rv, failures: 3, ask: pageSize}},
		{"watching, a gap was mended lately", State{Phase: Watching, RV: rv, gaps: 1}},
		{"listing, the history went back", State{Phase: Listing, NoStream: true, RV: rv, quorum: true, Back: true, Anew: true}},
		{"watching, the state was just read again", State{Phase: Watching, RV: rv, regains: 1, failures: 1}},
		{"watching, the state was read again 4 times", State{Phase: Watching, RV: rv, regains: 4}},
	}
}

// variants are the results of a phase with the numbers that matter, in words.
func variants(p Phase) []struct {
	name string
	r    Result
} {
	type named = struct {
		name string
		r    Result
	}
	var all []named
	for _, r := range results(p) {
		name := r.Kind.String()
		if r.Kind == ResultFailed {
			name = r.Outcome.String()
		}
		if r.RV != "" {
			name += " at " + r.RV
		}
		switch {
		case r.Kind == ResultClosed && p == Watching:
			all = append(
				all,
				named{"closed at once", Result{Kind: ResultClosed, Opened: true}},
				named{"closed at once after an event", Result{Kind: ResultClosed, Opened: true, Frames: 1, RV: "10"}},
				named{"closed after 5 s", Result{Kind: ResultClosed, Opened: true, Lived: 5 * time.Second}},
				named{"closed after 5 min", Result{Kind: ResultClosed, Opened: true, Lived: 5 * time.Minute}})
			continue
		case r.Kind == ResultSilent && p == Watching:
			r.Opened, r.Lived = true, 90*time.Second
		case r.Kind == ResultGap:
			r.Opened, r.Gap, r.Frames, r.RV = true, true, 1, "10"
		case r.Kind == ResultWentBack && p == Watching:
			r.Opened, r.Frames, r.Bookmarks = true, 1, true
		case r.Kind == ResultFailed && p == Listing && (r.Outcome == kube.OutcomeExpired || r.Outcome == kube.OutcomeInvalid):
			later := r
			later.Page = 1
			all = append(all, named{name + " on page 2", later})
		case r.Kind == ResultFailed && r.Outcome == kube.OutcomeTooManyRequests:
			r.RetryAfter = 7 * time.Second
			name += ", Retry-After 7"
		}
		all = append(all, named{name, r})
		if r.Kind == ResultFailed && p == Watching &&
			(r.Outcome == kube.OutcomeDisconnected || r.Outcome == kube.OutcomeExpired) {
			r.Opened, r.Frames, r.RV, r.Lived = true, 3, "10", time.Minute
			all = append(all, named{name + " after events and a minute", r})
		}
	}
	return all
}

// says is a step in words.
func says(s State, st Step) string {
	text := s.Describe(st)
	switch {
	case st.Do == DoWait && st.Wait == 0:
		text = "wait up to " + st.Spread.String() + ", then be " + s.Then.String()
	case st.Do == DoStop && st.GiveUp:
		text = "stop, with the error"
	case st.Do == DoList || st.Do == DoStream || st.Do == DoWatch:
		text += fmt.Sprintf(" rv=%q", st.RV)
		if st.Probe > 0 {
			text += fmt.Sprintf(", and compare %d", st.Probe)
		}
		if st.Limit > 0 {
			text += fmt.Sprintf(" limit=%d", st.Limit)
		}
	}
	return text
}

// learns is what else a state remembers than the one before, in words.
func learns(was, is State) string {
	var all []string
	for _, f := range []struct {
		name    string
		was, is bool
	}{
		{"no streaming lists", was.NoStream, is.NoStream},
		{"version refused", was.quorum, is.quorum},
		{"token refused", was.unpaged, is.unpaged},
		{"bookmarks come", was.Cadence, is.Cadence},
		{"history went back", was.Back, is.Back},
		{"versions prove nothing", was.Anew, is.Anew},
		{"a gap", was.missed, is.missed},
	} {
		if f.is && !f.was {
			all = append(all, f.name)
		}
		if f.was && !f.is {
			all = append(all, "not: "+f.name)
		}
	}
	for _, f := range []struct {
		name    string
		was, is int
	}{
		{"failures", was.failures, is.failures},
		{"quick ends", was.quick, is.quick},
		{"failed streams", was.misses, is.misses},
		{"unreadable here", was.broken, is.broken},
		{"too large here", was.ahead, is.ahead},
		{"silent", was.silent, is.silent},
		{"read again", was.regains, is.regains},
		{"compare", int(was.ask), int(is.ask)},
		{"gaps", was.gaps, is.gaps},
	} {
		if f.is != f.was {
			all = append(all, fmt.Sprintf("%s %d", f.name, f.is))
		}
	}
	if was.RV != is.RV {
		all = append(all, "at "+is.RV)
	}
	return strings.Join(all, ", ")
}

// TestTheTableMatchesItsGoldenFile keeps testdata/table.md, the table for people, and shows
// each change of it in review.
func TestTheTableMatchesItsGoldenFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What a reflector does next\n\n" +
		"Written by `go test ./informer/internal/transition -run Table -update`. Below what it does are the results that\n" +
		"lead to it, with what it reports (→) and what else it remembers (;). A stop ends every state at once.\n")
	var whole []played // the situations that are shown with all results
	for _, from := range situations() {
		now := play(t, from)
		fmt.Fprintf(&b, "\n## %s\n", from.name)
		if as, differ := now.nearest(whole); 2*len(differ) < len(now.steps) {
			if len(differ) == 0 {
				fmt.Fprintf(&b, "As *%s*.\n", as)
				continue
			}
			fmt.Fprintf(&b, "As *%s*, but:\n", as)
			writeSteps(&b, differ)
			continue
		}
		whole = append(whole, now)
		writeSteps(&b, now.steps)
	}
	path := filepath.Join("testdata", "table.md")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("the table is another one; -update writes it (-written +is):\n%s", diff)
	}
}

// played is what the table says in a situation, by result.
type played struct {
	name  string
	steps []playedStep
}

// playedStep is a result, what is done after it, and what is reported and remembered.
type playedStep struct{ result, does, learned string }

func play(t *testing.T, from situation) played {
	t.Helper()
	all := played{name: from.name}
	for _, v := range variants(from.s.Phase) {
		s, st := Next(from.s, v.r)
		if err := check(from.s, v.r, s, st); err != nil {
			t.Errorf("%s, %s: %v", from.name, v.name, err)
		}
		learned := ""
		if st.Incident != 0 {
			learned = " → " + st.Incident.String()
		}
		if more := learns(from.s, s); more != "" {
			learned += "; " + more
		}
		all.steps = append(all.steps, playedStep{v.name, says(s, st), learned})
	}
	return all
}

// nearest returns the situation with the same results that has the most in common, and the steps that differ.
func (p played) nearest(others []played) (name string, differ []playedStep) {
	differ = p.steps
	for _, other := range others {
		if !slices.EqualFunc(p.steps, other.steps, func(a, b playedStep) bool { return a.result == b.result }) {
			continue
		}
		d := slices.DeleteFunc(slices.Clone(p.steps), func(s playedStep) bool { return slices.Contains(other.steps, s) })
		if len(d) < len(differ) {
			name, differ = other.name, d
		}
	}
	return name, differ
}

// writeSteps writes what is done, and after it the results that lead to it.
func writeSteps(b *strings.Builder, steps []playedStep) {
	does := map[string]bool{}
	for _, first := range steps {
		if does[first.does] {
			continue
		}
		does[first.does] = true
		fmt.Fprintf(b, "- %s\n", first.does)
		learned := map[string]bool{}
		for _, second := range steps {
			if second.does != first.does || learned[second.learned] {
				continue
			}
			learned[second.learned] = true
			var results []string
			for _, s := range steps {
				if s.does == second.does && s.learned == second.learned {
					results = append(results, s.result)
				}
			}
			writeLines(b, "  - ", strings.Join(results, " | ")+second.learned)
		}
	}
}

// writeLines writes an item of a list in lines of 120 columns.
func writeLines(b *strings.Builder, bullet, text string) {
	line := bullet
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > 120:
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(bullet)) + word
		default:
			line += " " + word
		}
	}
	b.WriteString(line + "\n")
}
