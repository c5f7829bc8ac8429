package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"

	"github.com/gapless-io/gapless/bench/internal/peer"
)

// Record is what was measured last of each case, in runs; the page of figures is made of it.
type Record struct {
	Runs []Recorded `json:"runs"`
}

// Recorded is what of one run is still the newest.
type Recorded struct {
	Date    string   `json:"date"`
	Commit  string   `json:"commit"` // that was measured; of the first runs the one that recorded them
	Machine string   `json:"machine"`
	Note    string   `json:"note,omitempty"`
	Results []Result `json:"results"`
}

// Result is one metric of a case. Peer is what PeerName needs for the same work; Before is
// the server that a relay was in front of.
type Result struct {
	Case     string   `json:"case"`
	Work     string   `json:"work"`
	Metric   string   `json:"metric"`
	Unit     string   `json:"unit,omitempty"`
	Gapless  float64  `json:"gapless"`
	Peer     *float64 `json:"peer,omitempty"`
	PeerName string   `json:"peerName,omitempty"`
	Before   string   `json:"before,omitempty"`
	Goal     Goal     `json:"goal,omitzero"`
}

// same reports whether a newer result takes the place of another one, whatever its goal.
func (r Result) same(other Result) bool {
	return r.Case == other.Case && r.Metric == other.Metric && r.Before == other.Before
}

// ReadRecord reads a record.
func ReadRecord(path string) (*Record, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	var r Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("record %s: %w", path, err)
	}
	return &r, nil
}

// Write writes a record.
func (r *Record) Write(path string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644) //nolint:gosec // it is a file of the repository
}

// Commit names what is measured: the commit of a checkout, with a + if it was changed since.
func Commit(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=7", "--dirty=+", "--exclude=*")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask git for the commit of %s: %w", root, err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// Add adds a run. What it measured again is removed from the runs before.
func (r *Record) Add(run Recorded) {
	for i := range r.Runs {
		r.Runs[i].Results = slices.DeleteFunc(r.Runs[i].Results, func(was Result) bool {
			return slices.ContainsFunc(run.Results, was.same)
		})
	}
	r.Runs = append(slices.DeleteFunc(r.Runs, func(was Recorded) bool { return len(was.Results) == 0 }), run)
}

// Results are the medians of a report, for a record.
func (r *Report) Results() []Result {
	var all []Result
	for _, row := range r.Rows {
		for _, m := range row.metrics {
			one := Result{Case: row.Case, Work: row.Title, Metric: m.Name, Unit: m.Unit, Goal: m.Goal}
			up, own := row.Median(peer.Upstream, m.Name), row.Median(peer.Gapless, m.Name)
			if row.relay { // the goals are for a relay before each
				for _, one.Before = range []string{row.before, peer.Gapless} {
					if one.Gapless = up; one.Before == peer.Gapless {
						one.Gapless = own
					}
					if !math.IsNaN(one.Gapless) {
						all = append(all, one)
					}
				}
				continue
			}
			if math.IsNaN(own) {
				continue
			}
			one.Gapless = own
			if !math.IsNaN(up) {
				one.Peer, one.PeerName = &up, row.before
			}
			all = append(all, one)
		}
	}
	return all
}
