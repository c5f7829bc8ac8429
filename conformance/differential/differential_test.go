package differential_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/differential/compare"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

var (
	full   = flag.Bool("full", false, "play the scripts that take minutes as well")
	update = flag.Bool("update", false, "write the table of differences into docs/compatibility.md")
	built  = flag.String("program", "", "a gapless program that is built already, instead of one from this checkout")
	dump   = flag.Bool("dump", false, "print what both servers showed")
)

// lanes is how many pairs of servers there are. Scripts mostly wait.
const lanes = 4

// The reference server's goroutines outlive it (see package oracle), so this package
// does not look for leaked ones; those below it do.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(lanes)); err != nil {
		panic(err)
	}
	os.Exit(m.Run()) //nolint:forbidigo // m.Run wants it
}

// suite collects what the scripts show.
type suite struct {
	table compare.Table

	// mu guards what the scripts add.
	mu     sync.Mutex
	played []string
	all    []compare.Difference
	rows   map[string][]row // by script
}

// row is a line of the report.
type row struct{ name, upstream, gapless, verdict string }

func scripts(t *testing.T) []script.Script {
	t.Helper()
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
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

func table(t *testing.T) compare.Table {
	t.Helper()
	text, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := compare.ParseTable(string(text))
	if err != nil {
		t.Fatalf("differences.txt: %v", err)
	}
	return parsed
}

// build returns the program that is tested.
func build(t *testing.T) string {
	t.Helper()
	if *built != "" {
		return *built
	}
	binary, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// TestScripts plays every script against both servers. A difference that is not in
// the table fails it, and so does an entry of the table that no difference matches.
func TestScripts(t *testing.T) {
	all := scripts(t)
	binary := build(t)
	s := &suite{table: table(t), rows: map[string][]row{}}
	t.Cleanup(func() { s.report(t, all) })
	pairs := make(chan *pair, lanes)
	for range lanes {
		pairs <- newPair(t, binary)
	}
	for i, one := range all {
		t.Run(one.Name, func(t *testing.T) {
			if one.Full && !*full {
				t.Skip("only with -full")
			}
			t.Parallel()
			p := <-pairs
			defer func() { pairs <- p }()
			s.play(t, p, one, fmt.Sprintf("s%02d.example.com", i))
		})
	}
}

// play plays one script and judges what it shows.
func (s *suite) play(t *testing.T, p *pair, one script.Script, group string) {
	t.Helper()
	upstream, gapless := p.play(t, one, group)
	if *dump {
		show(t, "upstream", upstream)
		show(t, "gapless", gapless)
	}
	s.judge(t, one, upstream, gapless)
}

// judge notes the differences and fails for those that are not meant.
func (s *suite) judge(t *testing.T, one script.Script, upstream, gapless play.Transcript) {
	t.Helper()
	differences := compare.Differences(one.Name, upstream, gapless)
	verdicts := map[string][]string{}
	for _, d := range differences {
		verdict := "DIFFERENT"
		entry, ok := s.table.Find(d)
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
		r := row{name: c.Name, upstream: compare.Summary(c.Name, upstream), gapless: compare.Summary(c.Name, gapless), verdict: "same"}
		if len(verdicts[c.Name]) > 0 {
			r.verdict = strings.Join(verdicts[c.Name], ", ")
		}
		rows = append(rows, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.played = append(s.played, one.Name)
	s.all = append(s.all, differences...)
	s.rows[one.Name] = rows
}

// report prints the cases, and fails for what the table lists in vain.
func (s *suite) report(t *testing.T, all []script.Script) {
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
	for _, stale := range s.table.Stale(s.all, s.played) {
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

// show prints what a server showed.
func show(t *testing.T, name string, transcript play.Transcript) {
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

const (
	document = "docs/compatibility.md"
	begin    = "<!-- begin: written by go test -update in conformance/differential -->\n"
	end      = "<!-- end -->\n"
)

// TestDocumentHasTheTable compares the part of the documentation that is written
// from the table, or writes it.
func TestDocumentHasTheTable(t *testing.T) {
	path := filepath.Join(harness.Root(), document)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", document)
	}
	want := table(t).Markdown()
	if was == want {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date: go test -run TestDocument . -update", document)
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
