package cases

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/bench/internal/peer"
)

// Report is what the cases measured.
type Report struct {
	Rows []*Row `json:"rows"`
}

// Row is what one case measured: the samples of each program, by its name.
type Row struct {
	Case    string              `json:"case"`
	Title   string              `json:"title"`
	Samples map[string][]Sample `json:"samples"`

	metrics []Metric
	relay   bool
	before  string // the server in the place of upstream
}

func (r *Report) row(c Case) *Row {
	row := &Row{
		Case: c.Name, Title: c.Title, Samples: map[string][]Sample{}, metrics: c.Metrics, relay: c.Relay, before: "generic",
	}
	if c.Kinds || c.Etcd {
		row.before = peer.Kube
	}
	r.Rows = append(r.Rows, row)
	return row
}

func (r *Row) add(program string, s Sample) { r.Samples[program] = append(r.Samples[program], s) }

// Median returns the median of a metric over the runs on a program, and whether
// there is any.
func (r *Row) Median(program, metric string) float64 {
	var all []float64
	for _, s := range r.Samples[program] {
		if v, ok := s.Values[metric]; ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return math.NaN()
	}
	slices.Sort(all)
	mid := len(all) / 2
	if len(all)%2 == 0 {
		return (all[mid-1] + all[mid]) / 2
	}
	return all[mid]
}

// Markdown writes the table, and that of the relay if it was measured.
func (r *Report) Markdown(w io.Writer) {
	isRelay := func(row *Row) bool { return row.relay }
	relayed := slices.ContainsFunc(r.Rows, isRelay)
	if compared := slices.DeleteFunc(slices.Clone(r.Rows), isRelay); len(compared) > 0 || !relayed {
		fmt.Fprintf(w, "| work | measured | upstream | gapless | ratio | goal | met |\n|---|---|--:|--:|--:|--:|---|\n")
		for _, row := range compared {
			title := row.Title
			for _, m := range row.metrics {
				up, own := row.Median(peer.Upstream, m.Name), row.Median(peer.Gapless, m.Name)
				fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", title, m.Name, format(up, m.Unit), format(own, m.Unit),
					ratio(own, up), m.Goal, m.Goal.met(up, own))
				title = ""
			}
		}
	}
	if relayed {
		r.relayed(w)
	}
	r.notes(w)
}

// relayed writes the table of the relay, which has to meet the goals before each server.
func (r *Report) relayed(w io.Writer) {
	fmt.Fprintf(w, "\n| a relay before | measured | goal | upstream | met | gapless | met |\n|---|---|--:|--:|---|--:|---|\n")
	for _, row := range r.Rows {
		if !row.relay {
			continue
		}
		title := row.Title
		for _, m := range row.metrics {
			up, own := row.Median(peer.Upstream, m.Name), row.Median(peer.Gapless, m.Name)
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", title, m.Name, m.Goal, format(up, m.Unit),
				m.Goal.met(math.NaN(), up),
				format(own, m.Unit), m.Goal.met(math.NaN(), own))
			title = ""
		}
	}
}

// notes writes the notes of all runs.
func (r *Report) notes(w io.Writer) {
	for _, row := range r.Rows {
		for _, program := range slices.Sorted(maps.Keys(row.Samples)) {
			for i, s := range row.Samples[program] {
				for _, note := range s.Notes {
					fmt.Fprintf(w, "\n- %s, run %d: %s", row.Case, i+1, note)
				}
			}
		}
	}
	fmt.Fprintln(w)
}

// format writes a value with three digits and its unit.
func format(v float64, unit string) string {
	if math.IsNaN(v) {
		return "–"
	}
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 || v == 0 {
		text = fmt.Sprintf("%.0f", v)
	}
	return strings.TrimSpace(text + " " + unit)
}

// ratio writes a part of one as 1/n.
func ratio(own, up float64) string {
	switch {
	case math.IsNaN(own) || math.IsNaN(up) || up == 0:
		return "–"
	case own == 0:
		return "0"
	case own < up/2:
		return fmt.Sprintf("1/%.3g", up/own)
	}
	return fmt.Sprintf("%.3gx", own/up)
}

// String writes the values in the order of their names.
func (s Sample) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		parts = append(parts, fmt.Sprintf("%s=%.4g", name, s.Values[name]))
	}
	return strings.Join(append(parts, s.Notes...), " ")
}
