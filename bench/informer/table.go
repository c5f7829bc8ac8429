package main

import (
	"fmt"
	"io"
)

// row is one line of the table: the same figure of two runs, and the bar.
type row struct {
	what        string
	on          string // what is measured so
	of          func(figures) float64
	unit        string
	scale       float64 // of the unit
	theirs, our string  // runs
	atMost      float64 // our figure over theirs; 0: no bar
	atLeast     float64
	ownAtMost   float64 // our figure, whatever theirs is
}

// value is the row's figure in its unit.
func (r row) value(f figures) float64 {
	if r.scale == 0 {
		return r.of(f)
	}
	return r.of(f) / r.scale
}

func retained(f figures) float64 { return f.Retained }

func peak(f figures) float64 { return f.SyncPeak }

func rows() []row {
	const (
		list, stream, ten = ", list, 1 handlers", ", stream, 1 handlers", ", list, 10 handlers"
		typed, dynamic    = "client-go typed", "client-go unstructured"
	)
	all := []row{
		{what: "retained per pod", on: "typed", of: retained, unit: "B", theirs: typed + list, our: "typed" + list},
		{
			what: "retained per pod", on: "typed, without managed fields", of: retained, unit: "B",
			theirs: typed + list, our: "typed stripped" + list, atMost: 0.8,
		},
		{
			what: "retained per pod", on: "typed, encoded", of: retained, unit: "B",
			theirs: typed + list, our: "encoded" + list, atMost: 0.35,
		},
		{what: "retained per pod", on: "slim", of: retained, unit: "B", theirs: typed + list, our: "slim" + list},
		{
			what: "retained per pod", on: "unstructured", of: retained, unit: "B",
			theirs: dynamic + list, our: "unstructured" + list,
		},
		{
			what: "retained per pod", on: "unstructured, encoded", of: retained, unit: "B",
			theirs: dynamic + list, our: "encoded unstructured" + list, atMost: 0.35,
		},
		{
			what: "first sync, peak heap", on: "typed, encoded", of: peak, unit: "MB", scale: 1e6,
			theirs: typed + list, our: "encoded" + list,
		},
		{
			what: "first sync, wall", on: "typed, encoded", of: func(f figures) float64 { return f.SyncWall }, unit: "s",
			theirs: typed + list, our: "encoded" + list, atMost: 0.55,
		},
		{
			what: "first sync, wall", on: "unstructured", of: func(f figures) float64 { return f.SyncWall }, unit: "s",
			theirs: dynamic + list, our: "unstructured" + list, atMost: 0.55,
		},
		{
			what: "events", on: "typed, encoded", of: func(f figures) float64 { return f.Events }, unit: "/s",
			theirs: typed + list, our: "encoded" + list, atLeast: 3,
		},
		{
			what: "410, nothing changed, wall", on: "typed, encoded", of: func(f figures) float64 { return f.GoneWall },
			unit:   "s",
			theirs: typed + list, our: "encoded" + list, atMost: 0.5,
		},
	}
	for _, how := range []string{list, stream} {
		name := "LIST"
		if how == stream {
			name = "streaming list"
		}
		all = append(
			all,
			row{
				what: "first sync, wall", on: name, of: func(f figures) float64 { return f.SyncWall }, unit: "s",
				theirs: typed + how, our: "typed" + how, atMost: 0.55,
			},
			row{
				what: "first sync, CPU", on: name, of: func(f figures) float64 { return f.SyncCPU }, unit: "s",
				theirs: typed + how, our: "typed" + how,
			},
			row{
				what: "first sync, peak heap", on: name, of: peak, unit: "MB", scale: 1e6,
				theirs: typed + how, our: "typed" + how,
			},
			row{
				what: "first sync, peak over base", on: name, of: func(f figures) float64 { return f.SyncPeak / f.Base },
				unit:   "x",
				theirs: typed + how, our: "typed" + how, ownAtMost: 1.15,
			},
			row{
				what: "410, nothing changed, wall", on: name, of: func(f figures) float64 { return f.GoneWall }, unit: "s",
				theirs: typed + how, our: "typed" + how, atMost: 0.5,
			},
			row{
				what: "410, CPU", on: name, of: func(f figures) float64 { return f.GoneCPU }, unit: "s",
				theirs: typed + how, our: "typed" + how,
			},
			row{
				what: "410, peak over base", on: name, of: func(f figures) float64 { return f.GonePeak / f.Base }, unit: "x",
				theirs: typed + how, our: "typed" + how, ownAtMost: 1.15,
			},
			row{
				what: "410, handler calls", on: name, of: func(f figures) float64 { return f.GoneCalls },
				theirs: typed + how, our: "typed" + how,
			},
		)
	}
	for _, how := range []string{list, ten} {
		name := "1 handler"
		if how == ten {
			name = "10 handlers"
		}
		all = append(
			all,
			row{
				what: "events", on: name, of: func(f figures) float64 { return f.Events }, unit: "/s",
				theirs: typed + how, our: "typed" + how, atLeast: 3,
			},
			row{
				what: "CPU per event", on: name, of: func(f figures) float64 { return f.EventCPU }, unit: "us",
				theirs: typed + how, our: "typed" + how,
			},
			row{
				what: "allocations per event", on: name, of: func(f figures) float64 { return f.Mallocs },
				theirs: typed + how, our: "typed" + how,
			},
		)
	}
	return append(
		append(all, protobufRows()...),
		row{
			what: "keys waiting", on: "blocked handler", of: func(f figures) float64 { return f.Backlog },
			theirs: typed + list, our: "typed" + list,
		},
		row{
			what: "re-lists", on: "cut off for 5 000 changes, server with history",
			of:     func(f figures) float64 { return f.Relists },
			theirs: clientGoHistory, our: ourHistory, ownAtMost: 0.5,
		},
		row{
			what: "until it has them", on: "cut off for 5 000 changes, server with history",
			of: func(f figures) float64 { return f.Resumed }, unit: "s",
			theirs: clientGoHistory, our: ourHistory,
		},
		row{
			what: "memory", on: "blocked handler", of: func(f figures) float64 { return f.Blocked }, unit: "MB", scale: 1e6,
			theirs: typed + list, our: "typed" + list,
		},
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
		a, b := r.value(theirs), r.value(our)
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
		fmt.Fprintf(w, "| %s: %s | %s | %s | %s | %s | %s |\n",
			r.on, r.what, amount(a, r.unit), amount(b, r.unit), ratio, goal, met)
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
