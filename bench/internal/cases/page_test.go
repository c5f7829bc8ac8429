package cases

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/bench/internal/peer"
)

// The files of the repository that --record writes.
var (
	recordFile = filepath.Join("..", "..", "log", "results.json")
	pageFile   = filepath.Join("..", "..", "..", "docs", "performance.md")
)

func TestThePageIsMadeOfTheRecord(t *testing.T) {
	record, err := ReadRecord(recordFile)
	if err != nil {
		t.Fatalf("read the record: %v", err)
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	if record.Page() != string(page) {
		t.Errorf("%s is not what %s says: run go run ./cmd/bench --page", pageFile, recordFile)
	}
	if lines := strings.Count(string(page), "\n"); lines >= 80 {
		t.Errorf("the page has %d lines, it is to be read at once", lines)
	}
}

// TestTheRecordHasEveryCaseOfTheServers: who adds a case measures it, or says here that nobody has.
func TestTheRecordHasEveryCaseOfTheServers(t *testing.T) {
	record, err := ReadRecord(recordFile)
	if err != nil {
		t.Fatalf("read the record: %v", err)
	}
	has := map[string]bool{}
	for _, run := range record.Runs {
		for _, r := range run.Results {
			has[r.Case] = true
		}
	}
	unmeasured := []string{"create-1"}
	for _, c := range All() {
		missing := !has[c.Name] && !c.Relay // a relay is measured before other servers under other names
		if missing != slices.Contains(unmeasured, c.Name) {
			t.Errorf("%s: not in the record: %v", c.Name, missing)
		}
	}
}

func TestMissedGoalsComeFirstAndNewerResultsTakeThePlaceOfOlderOnes(t *testing.T) {
	up := 100.
	list := Result{
		Case: "list-1", Work: "LIST", Metric: "cpu", Unit: "ms", Gapless: 5, Peer: &up, PeerName: "generic", Goal: Ratio(1. / 25),
	}
	small := list
	small.Case, small.Work, small.Gapless = "list-8", "LIST of 8", 6
	start := Result{Case: "start", Work: "start", Metric: "ready", Gapless: 1, Peer: &up, PeerName: "generic", Goal: Ratio(0.5)}
	quick := start
	quick.Metric, quick.Gapless = "served", 40
	r := &Record{Runs: []Recorded{{Date: "2026-01-01", Commit: "a", Machine: "m", Results: []Result{start, quick, list, small}}}}
	want := []string{
		"| LIST of 8: cpu (and 1 more) | 6 ms | 100 generic | 1/16.7 | ≤ 1/25 | **no** | 1 |",
		"| start: served | 40 | 100 generic | 1/2.5 | ≤ 0.5x | yes | 1 |",
	}
	if got := rowsOf(r.Page()); !slices.Equal(got, want) {
		t.Errorf("the page has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	small.Gapless, list.Gapless = 4, 3
	r.Add(Recorded{Date: "2026-01-02", Commit: "b", Machine: "m", Results: []Result{list, small}})
	want = []string{want[1], "| LIST of 8: cpu | 4 ms | 100 generic | 1/25 | ≤ 1/25 | yes | 2 |"}
	if got := rowsOf(r.Page()); !slices.Equal(got, want) {
		t.Errorf("after the second run the page has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.Add(Recorded{Date: "2026-01-03", Commit: "c", Machine: "m", Results: []Result{start, quick}})
	if len(r.Runs) != 2 || r.Runs[0].Date != "2026-01-02" {
		t.Errorf("a run of which nothing is the newest stays: %v", r.Runs)
	}
}

func rowsOf(page string) []string {
	_, table, _ := strings.Cut(page, "--:|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	return strings.Split(table, "\n")
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	report := &Report{}
	row := report.row(Case{
		Name: "x", Title: "work",
		Metrics: []Metric{{Name: "cpu", Unit: "us", Goal: Ratio(1. / 3)}, {Name: "rate", Goal: Times(2)}},
	})
	row.add(peer.Upstream, Sample{Values: map[string]float64{"cpu": 9, "rate": 1}})
	row.add(peer.Gapless, Sample{Values: map[string]float64{"cpu": 2, "rate": 4}})
	relay := report.row(Case{
		Name: "relay-x", Title: "work", Relay: true, Kinds: true, Metrics: []Metric{{Name: "time", Goal: AtMost(1. / 3)}},
	})
	relay.add(peer.Upstream, Sample{Values: map[string]float64{"time": 1}})
	relay.add(peer.Gapless, Sample{Values: map[string]float64{"time": 0.2}})
	results := report.Results()
	if len(results) != 4 || results[2].Before != peer.Kube || results[3].Before != peer.Gapless || results[3].Gapless != 0.2 {
		t.Fatalf("the report has %+v", results)
	}
	r := &Record{}
	r.Add(Recorded{Date: "2026-01-01", Results: results})
	path := filepath.Join(t.TempDir(), "results.json")
	if err := r.Write(path); err != nil {
		t.Fatalf("write the record: %v", err)
	}
	again, err := ReadRecord(path)
	if err != nil {
		t.Fatalf("read the record: %v", err)
	}
	if again.Page() != r.Page() {
		t.Errorf("it was written as\n%s\nand read as\n%s", r.Page(), again.Page())
	}
	again.Add(Recorded{Date: "2026-01-02", Results: results})
	if len(again.Runs) != 1 {
		t.Errorf("what is measured again does not take the place of what was read: %+v", again.Runs)
	}
}

func TestGoalsAreReadAsTheyAreWritten(t *testing.T) {
	for _, g := range []Goal{{}, Ratio(1. / 25), Ratio(0.4), Times(2.5), AtMost(100), AtMost(0), AtMost(0.05)} {
		text, err := g.MarshalText()
		if err != nil {
			t.Fatalf("write %v: %v", g, err)
		}
		var again Goal
		if err := again.UnmarshalText(text); err != nil || again != g {
			t.Errorf("%q is read as %v, %v", text, again, err)
		}
	}
	var g Goal
	if err := g.UnmarshalText([]byte("about 3")); err == nil {
		t.Error("a goal without a sign is read")
	}
	if used := AtMost(0).used(math.NaN(), 1); !math.IsInf(used, 1) {
		t.Errorf("1 of at most 0 uses %g", used)
	}
}
