package cases

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
)

// pageHead explains the table. It ends before the table's first line.
const pageHead = `# Performance

What was measured last, what misses its goal first. Cases and metrics that differ only in size or kind share a row: of
those that miss their goal the farthest from it, of the others the nearest to it, one for relays and one for replicas.
[All figures](../bench/log/results.json).
Peers: **generic** is the API server of Kubernetes without built-in kinds (` + "`k8s.io/apiextensions-apiserver`" + ` and etcd),
**kube-apiserver** 1.37 itself with etcd, for ConfigMaps and Pods, **client-go** its informers. A relay, before the server
that is named, has goals of its own. The [diary](../bench/log/diary.md) says what the cases do, how they are measured, and
why figures are what they are; **stock** is the standard library's TLS server with the same answer in memory.
` + "`make bench BENCHFLAGS=--record`" + ` measures again and writes this page, which nobody edits. [How costs grow](growth.md).

`

// line is a row of the page.
type line struct {
	Result
	run    int
	margin float64 // how much of the goal is used: more than 1 misses it
	others int     // that share it
}

// Page is the page of figures.
func (r *Record) Page() string {
	missed, met := r.lines()
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("| work | gapless | peer | ratio | goal | met | run |\n|---|--:|--:|--:|--:|---|--:|\n")
	for _, l := range slices.Concat(missed, met) {
		l.write(&b)
	}
	b.WriteString("\nRuns:\n")
	machine := ""
	for i, run := range r.Runs {
		on := run.Machine
		if on == machine {
			on = "the same machine"
		}
		machine = run.Machine
		fmt.Fprintf(&b, "%d. %s, commit %s, %s", i+1, run.Date, run.Commit, on)
		if run.Note != "" {
			b.WriteString("; " + run.Note)
		}
		b.WriteString("\n")
	}
	return b.String()
}

var (
	size   = regexp.MustCompile(`-[0-9]+$`)
	family = regexp.MustCompile(`^[a-z]+(-[a-z]+)?`)
	kind   = regexp.MustCompile(`^kinds-|-(configmap|pod)\b`)
)

// family names the cases that share a row.
func (r Result) family() string {
	if strings.HasPrefix(r.Case, "informer ") {
		of, _, _ := strings.Cut(r.Metric, ",")
		return "informer " + of
	}
	if r.Metric == "stock" {
		return "list" // of whatever form
	}
	return family.FindString(kind.ReplaceAllString(r.Case, ""))
}

// wide names the cases that share a row if their goals are met.
func (r Result) wide() string {
	switch first, _, _ := strings.Cut(r.family(), "-"); first {
	case "relay", "replica", "watch", "select":
		return first
	default:
		return r.family()
	}
}

// shown reports whether a result has a place on the page: it has a goal, which is no mere check that
// something is 0, where it is 0 for the peer too.
func (r Result) shown() bool {
	return r.Goal != (Goal{}) && (r.Goal != AtMost(0) || r.Gapless > 0 || r.peer() > 0)
}

// lines are the rows: those that miss their goals, the farthest first, and those that meet them.
func (r *Record) lines() (missed, met []line) {
	worst, nearest := map[string]int{}, map[string]int{}
	for i, run := range r.Runs {
		for _, one := range run.Results {
			if !one.shown() {
				continue
			}
			l := line{Result: one, run: i + 1, margin: one.Goal.used(one.peer(), one.Gapless)}
			if l.margin > 1 {
				missed = keep(missed, worst, one.family()+" "+size.ReplaceAllString(one.Metric, ""), l)
			} else {
				met = keep(met, nearest, one.wide(), l)
			}
		}
	}
	slices.SortStableFunc(missed, func(a, b line) int { return cmp.Compare(b.margin, a.margin) })
	return missed, met
}

// keep has the line with the largest margin of each key.
func keep(lines []line, at map[string]int, key string, l line) []line {
	i, has := at[key]
	if !has {
		at[key] = len(lines)
		return append(lines, l)
	}
	others := lines[i].others + 1
	if l.margin > lines[i].margin {
		lines[i] = l
	}
	lines[i].others = others
	return lines
}

func (r Result) peer() float64 {
	if r.Peer == nil {
		return math.NaN()
	}
	return *r.Peer
}

func (l line) write(b *strings.Builder) {
	work := l.Work + ": " + l.Metric
	if l.Before != "" {
		work = "relay, " + l.Before + ": " + work
	}
	if l.margin > 1 && l.others > 0 {
		work += fmt.Sprintf(" (and %d more)", l.others)
	}
	theirs := "–"
	if l.Peer != nil {
		theirs = format(*l.Peer, "") + " " + l.PeerName
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %d |\n", work, format(l.Gapless, l.Unit), theirs, ratio(l.Gapless, l.peer()),
		l.Goal,
		l.Goal.met(l.peer(), l.Gapless), l.run)
}
