// Package suite judges what scripts show on two servers, for the tests that play them.
//
// A [Suite] collects the differences that scripts show, and fails for one that its table does
// not list. A [Document] is the part of the documentation that is written from that table.
package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/gapless-io/gapless/conformance/differential/compare"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

// Suite collects what scripts show. Its methods may be called from any goroutine.
type Suite struct {
	// Table has the differences that are meant.
	Table compare.Table
	// Part says that the table is for other scripts too: patterns for any script may account for no difference.
	Part bool

	// mu guards what the scripts add.
	mu     sync.Mutex
	played []string
	all    []compare.Difference
	rows   map[string][]row // by script
}

// row is a line of the report.
type row struct{ name, upstream, gapless, verdict string }

// Scripts parses the scripts in a directory. Any error fails the test.
func Scripts(t testing.TB, dir string) []script.Script {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", dir, err)
	}
	var all []script.Script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := script.Parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// Table parses a table of differences. Any error fails the test.
func Table(t testing.TB, file string) compare.Table {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := compare.ParseTable(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return parsed
}

// Judge notes the differences of two transcripts of a script, and fails for those that are not meant.
func (s *Suite) Judge(t testing.TB, one script.Script, upstream, gapless play.Transcript) {
	t.Helper()
	differences := compare.Differences(one.Name, upstream, gapless)
	verdicts := map[string][]string{}
	for _, d := range differences {
		verdict := "DIFFERENT"
		entry, ok := s.Table.Find(d)
		switch {
		case !ok:
			t.Errorf("not in the table: %v", d)
		case entry.General():
			continue
		default:
			verdict = string(entry.Class) + ": " + entry.ID
		}
		if !slices.Contains(verdicts[d.Case], verdict) {
			verdicts[d.Case] = append(verdicts[d.Case], verdict)
		}
	}
	var rows []row
	for _, c := range one.Cases {
		r := row{
			name: c.Name, upstream: compare.Summary(c.Name, upstream), gapless: compare.Summary(c.Name, gapless), verdict: "same",
		}
		if len(verdicts[c.Name]) > 0 {
			r.verdict = strings.Join(verdicts[c.Name], ", ")
		}
		rows = append(rows, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string][]row{}
	}
	s.played = append(s.played, one.Name)
	s.all = append(s.all, differences...)
	s.rows[one.Name] = rows
}

// Agree reports whether two transcripts of a script differ as the table says, so that Judge finds nothing.
func (s *Suite) Agree(one script.Script, upstream, gapless play.Transcript) bool {
	differences := compare.Differences(one.Name, upstream, gapless)
	unlisted := func(d compare.Difference) bool {
		_, listed := s.Table.Find(d)
		return !listed
	}
	ofOthers := func(stale string) bool {
		_, pattern, _ := strings.Cut(stale, ": ")
		return strings.HasPrefix(pattern, "* |")
	}
	return !slices.ContainsFunc(differences, unlisted) &&
		len(slices.DeleteFunc(s.Table.Stale(differences, []string{one.Name}), ofOthers)) == 0
}

// Report prints the cases, and fails for what the table lists in vain.
func (s *Suite) Report(t testing.TB, all []script.Script) {
	t.Helper()
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\tupstream\tgapless\t")
	count := map[string]int{}
	for _, one := range all {
		for _, r := range s.rows[one.Name] {
			fmt.Fprintf(w, "%s: %s\t%s\t%s\t%s\n", one.Name, r.name, brief(r.upstream), brief(r.gapless), r.verdict)
			class, _, _ := strings.Cut(r.verdict, ":")
			count[class]++
		}
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	t.Logf("%d scripts, cases: %v\n%s", len(s.played), count, out.String())
	for _, stale := range s.Table.Stale(s.all, s.played) {
		if _, pattern, _ := strings.Cut(stale, ": "); s.Part && strings.HasPrefix(pattern, "* |") {
			continue
		}
		t.Errorf("differences.txt lists what does not differ any more: %s", stale)
	}
}

// brief cuts what is too long for a table.
func brief(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// Show prints what a server showed.
func Show(t testing.TB, name string, transcript play.Transcript) {
	t.Helper()
	for _, f := range compare.Facts(transcript) {
		t.Logf("%s %d %s: %s", name, f.Line, f.Part, f.Value)
	}
	for _, r := range transcript.Results {
		for _, f := range r.Frames {
			t.Logf("%s %d at %v: %.150s", name, r.Step.Line, f.SinceOpen, f.Raw)
		}
	}
}

// Document is a part of a file that is written from a table, between a line that begins it
// and one that ends it.
type Document struct {
	Path, Begin, End string
	// Update says that the part is written instead of compared.
	Update bool
}

// Check compares the part with what the table says, or writes it.
func (d Document) Check(t testing.TB, table compare.Table) {
	t.Helper()
	text, err := os.ReadFile(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), d.Begin)
	was, after, ok2 := strings.Cut(rest, d.End)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", d.Path)
	}
	want := table.Markdown()
	if was == want {
		return
	}
	if !d.Update {
		t.Fatalf("%s is out of date: go test -run TestDocument . -update", d.Path)
	}
	if err := os.WriteFile(d.Path, []byte(before+d.Begin+want+d.End+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
