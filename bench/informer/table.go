package main

import (
	"fmt"
	"io"
)

// row is one line of the table: the same figure of two runs, and the bar.
type row struct {
	what        string
	of          func(figures) float64
	unit        string
	scale       float64 // of the unit
	theirs, our string  // runs
	atMost      float64 // our figure over theirs; 0: no bar
	atLeast     float64
	ownAtMost   float64 // our figure, whatever theirs is
}

func retained(f figures) float64 { return f.Retained }

func peak(f figures) float64 { return f.SyncPeak }

func rows() []row {
	const (
		list, stream, ten = ", list, 1 handlers", ", stream, 1 handlers", ", list, 10 handlers"
		typed, dynamic    = "client-go typed", "client-go unstructured"
	)
	all := []row{
		{what: "retained per pod, typed", of: retained, unit: "B", theirs: typed + list, our: "typed" + list},
		{what: "— without managed fields", of: retained, unit: "B", theirs: typed + list, our: "typed stripped" + list, atMost: 0.8},
		{what: "— encoded", of: retained, unit: "B", theirs: typed + list, our: "encoded" + list, atMost: 0.35},
		{what: "— slim", of: retained, unit: "B", theirs: typed + list, our: "slim" + list},
		{what: "retained per pod, unstructured", of: retained, unit: "B", theirs: dynamic + list, our: "unstructured" + list},
		{what: "— encoded", of: retained, unit: "B", theirs: dynamic + list, our: "encoded unstructured" + list, atMost: 0.35},
		{what: "first sync, peak heap, encoded", of: peak, unit: "MB", scale: 1e6, theirs: typed + list, our: "encoded" + list},
		{what: "first sync, wall, encoded", of: func(f figures) float64 { return f.SyncWall }, unit: "s", theirs: typed + list, our: "encoded" + list, atMost: 0.55},
		{what: "events, encoded", of: func(f figures) float64 { return f.Events }, unit: "/s", theirs: typed + list, our: "encoded" + list, atLeast: 3},
		{what: "410, wall, encoded", of: func(f figures) float64 { return f.GoneWall }, unit: "s", theirs: typed + list, our: "encoded" + list, atMost: 0.5},
	}
	for _, how := range []string{list, stream} {
		name := "LIST"
		if how == stream {
			name = "streaming list"
		}
		all = append(
			all,
			row{what: "first sync, wall, " + name, of: func(f figures) float64 { return f.SyncWall }, unit: "s", theirs: typed + how, our: "typed" + how, atMost: 0.55},
			row{what: "first sync, CPU, " + name, of: func(f figures) float64 { return f.SyncCPU }, unit: "s", theirs: typed + how, our: "typed" + how},
			row{what: "first sync, peak heap, " + name, of: peak, unit: "MB", scale: 1e6, theirs: typed + how, our: "typed" + how},
			row{what: "first sync, peak over base, " + name, of: func(f figures) float64 { return f.SyncPeak / f.Base }, unit: "x", theirs: typed + how, our: "typed" + how, ownAtMost: 1.15},
			row{what: "410, nothing changed, wall, " + name, of: func(f figures) float64 { return f.GoneWall }, unit: "s", theirs: typed + how, our: "typed" + how, atMost: 0.5},
			row{what: "410, CPU, " + name, of: func(f figures) float64 { return f.GoneCPU }, unit: "s", theirs: typed + how, our: "typed" + how},
			row{what: "410, peak over base, " + name, of: func(f figures) float64 { return f.GonePeak / f.Base }, unit: "x", theirs: typed + how, our: "typed" + how, ownAtMost: 1.15},
			row{what: "410, handler calls, " + name, of: func(f figures) float64 { return f.GoneCalls }, theirs: typed + how, our: "typed" + how},
		)
	}
	for _, how := range []string{list, ten} {
		name := "1 handler"
		if how == ten {
			name = "10 handlers"
		}
		all = append(
			all,
			row{what: "events, " + name, of: func(f figures) float64 { return f.Events }, unit: "/s", theirs: typed + how, our: "typed" + how, atLeast: 3},
			row{what: "CPU per event, " + name, of: func(f figures) float64 { return f.EventCPU }, unit: "us", theirs: typed + how, our: "typed" + how},
			row{what: "allocations per event, " + name, of: func(f figures) float64 { return f.Mallocs }, theirs: typed + how, our: "typed" + how},
		)
	}
	return append(
		append(all, protobufRows()...),
		row{what: "blocked handler, keys waiting", of: func(f figures) float64 { return f.Backlog }, theirs: typed + list, our: "typed" + list},
		row{what: "cut off for 5 000 changes, server with history: re-lists", of: func(f figures) float64 { return f.Relists }, theirs: clientGoHistory, our: ourHistory, ownAtMost: 0.5},
		row{what: "— until it has them", of: func(f figures) float64 { return f.Resumed }, unit: "s", theirs: clientGoHistory, our: ourHistory},
		row{what: "blocked handler, memory", of: func(f figures) float64 { return f.Blocked }, unit: "MB", scale: 1e6, theirs: typed + list, our: "typed" + list},
	)
}

// table prints what the runs found.
func table(w io.Writer, results map[string]figures, pods int) error {
	fmt.Fprintf(w, "%d pods\n\n| measured | client-go | gapless | ratio | goal | met |\n|---|--:|--:|--:|--:|---|\n", pods)
	for _, r := range rows() {
		theirs, has := results[r.theirs]
		our, have := results[r.our]
		if !has || !have {
			continue
		}
		scale := r.scale
		if scale == 0 {
			scale = 1
		}
		a, b := r.of(theirs)/scale, r.of(our)/scale
		ratio, goal, met := "", "", ""
		if a > 0 {
			ratio = fmt.Sprintf("%.2f", b/a)
		}
		switch {
		case r.ownAtMost > 0:
			goal, met = fmt.Sprintf("ours <= %.2f", r.ownAtMost), verdict(b <= r.ownAtMost)
		case r.atMost > 0:
			goal, met = fmt.Sprintf("<= %.2f", r.atMost), verdict(b/a <= r.atMost)
		case r.atLeast > 0:
			goal, met = fmt.Sprintf(">= %.2f", r.atLeast), verdict(b/a >= r.atLeast)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.what, amount(a, r.unit), amount(b, r.unit), ratio, goal, met)
	}
	return nil
}

func amount(x float64, unit string) string {
	switch {
	case x < 0:
		return "not told"
	case x < 100 && unit != "" && unit != "B":
		return fmt.Sprintf("%.2f %s", x, unit)
	}
	return fmt.Sprintf("%.0f %s", x, unit)
}

func verdict(is bool) string {
	if is {
		return "yes"
	}
	return "**no**"
}
