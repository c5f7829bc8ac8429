package suites

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// measured is what the page shows: outcomes by suite and side, and starts by side.
type measured struct {
	Starts map[string]start              `json:"starts"`
	Suites map[string]map[string]outcome `json:"suites"`
}

var (
	measuredFile = filepath.Join("testdata", "measured.json")
	pageFile     = filepath.Join("..", "..", "docs", "envtest.md")
)

const (
	pageBegin = "<!-- begin: written by go test -all -update in compat/suites -->\n"
	pageEnd   = "<!-- end -->\n"
)

func readMeasured(t *testing.T) *measured {
	t.Helper()
	m := &measured{Starts: map[string]start{}, Suites: map[string]map[string]outcome{}}
	text, err := os.ReadFile(measuredFile)
	if err == nil {
		err = json.Unmarshal(text, m)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return m
}

func (m *measured) set(s suite, on side, o outcome) {
	if m.Suites[s.name()] == nil {
		m.Suites[s.name()] = map[string]outcome{}
	}
	m.Suites[s.name()][on.name] = o
}

func (m *measured) write(t *testing.T) {
	t.Helper()
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(measuredFile, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatalf("marshal indent: %v", err)
	}
}

// TestPageShowsWhatWasMeasured compares the page with testdata.
func TestPageShowsWhatWasMeasured(t *testing.T) {
	if *update {
		t.Skip("the run writes it")
	}
	head, rest, tail := page(t)
	if want := tables(t, readMeasured(t)); rest != want {
		t.Errorf("%s does not show testdata/measured.json and testdata/failures: run go test -all -only '^$' -update\n"+
			"between\n%s\nand\n%s", pageFile, head[max(0, len(head)-100):], tail)
	}
}

// page returns the parts of the page: before, between and behind the marks.
func page(t *testing.T) (head, between, tail string) {
	t.Helper()
	text, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	head, rest, begins := strings.Cut(string(text), pageBegin)
	between, tail, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s has no marks", pageFile)
	}
	return head, between, tail
}

func writePage(t *testing.T, m *measured) {
	t.Helper()
	head, _, tail := page(t)
	if err := os.WriteFile(pageFile, []byte(head+pageBegin+tables(t, m)+pageEnd+tail), 0o644); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}

// tables are what stands between the page's marks.
func tables(t *testing.T, m *measured) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| control plane | start, median | slowest of 7 | stop, median |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(m.Starts)) {
		s := m.Starts[name]
		fmt.Fprintf(&b, "| %s | %d ms | %d ms | %d ms |\n", name, s.Start[len(s.Start)/2], s.Start[len(s.Start)-1],
			s.Stop[len(s.Stop)/2])
	}
	b.WriteString(
		"\nTests as passed / failed / skipped; the time of the suite, and in parentheses the processor time of the " +
			"servers' processes in it.\n")
	b.WriteString("\n| suite | gapless | time | upstream | time | gapless's time |\n|---|---|---|---|---|---|\n")
	var total [2]outcome
	for _, s := range suites() {
		row := m.Suites[s.name()]
		if len(row) == 0 {
			continue
		}
		ours, theirs := row["gapless"], row["upstream"]
		writeRow(&b, strings.Replace(s.name(), "/singlecluster/", "/…/", 1), ours, theirs) // lines are short
		for i, o := range []outcome{ours, theirs} {
			total[i].Passed += o.Passed
			total[i].Skipped += o.Skipped
			total[i].Failed = append(total[i].Failed, o.Failed...)
			total[i].Seconds += o.Seconds
			total[i].Servers += o.Servers
		}
	}
	writeRow(&b, "all", total[0], total[1])
	for _, name := range []string{"gapless", "upstream"} {
		writeReasons(&b, name, readList(t, name), m)
	}
	return b.String()
}

func writeRow(b *strings.Builder, name string, ours, theirs outcome) {
	counts := func(o outcome) string { return fmt.Sprintf("%d / %d / %d", o.Passed, len(o.Failed), o.Skipped) }
	times := func(o outcome) string { return fmt.Sprintf("%.1f s (%.1f s)", o.Seconds, o.Servers) }
	ratio := "–"
	if theirs.Seconds > 0 {
		ratio = fmt.Sprintf("%.0f %%", 100*ours.Seconds/theirs.Seconds)
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", name, counts(ours), times(ours), counts(theirs), times(theirs), ratio)
}

// writeReasons writes what failed on a side, by reason, and what passed at its second run.
func writeReasons(b *strings.Builder, side string, listed list, m *measured) {
	by := map[string][]string{}
	for _, s := range suites() {
		o := m.Suites[s.name()][side]
		for _, test := range o.Failed {
			reason := listed[s.name()][test]
			by[reason] = append(by[reason], s.name()+": "+test)
		}
		for _, test := range o.Again {
			const again = "failed in the first run, and passed when the suite ran again:"
			by[again] = append(by[again], s.name()+": "+test)
		}
	}
	if len(by) == 0 {
		fmt.Fprintf(b, "\nOn %s nothing failed.\n", side)
		return
	}
	fmt.Fprintf(b, "\nWhat failed on %s:\n", side)
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		writeItem(b, "- ", reason)
		for _, test := range by[reason] {
			writeItem(b, "  - ", test)
		}
	}
}

// writeItem writes an item of a list, in lines of 120 columns.
func writeItem(b *strings.Builder, bullet, text string) {
	line := bullet
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > 120:
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(bullet)) + word
		default:
			line += " " + word
		}
	}
	b.WriteString(line + "\n")
}
