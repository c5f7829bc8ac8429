package cases

import (
	"fmt"
	"slices"

	"github.com/gapless-io/gapless/bench/internal/load"
)

// All returns the cases in the order in which they are run, which is that of the
// table; neighbours share servers where they can.
func All() []Case {
	var all []Case
	all = append(all, starting(), memory())
	all = append(all, creating()...)
	all = append(all, patching()...)
	all = append(all, applying()...)
	all = append(all, listing()...)
	all = append(all, resume())
	all = append(all, longListing()...) // the last with these servers: it adds objects
	all = append(all, resumingFar()...)
	all = append(all, watching()...)
	all = append(all, rendering()...)
	all = append(all, encoding()...)
	all = append(all, selecting()...)
	all = append(all, passing()...)
	all = append(all, collecting(), managedMemory(), managedPods())
	all = append(all, idling()...)
	all = append(all, concurrentLists())
	all = append(all, builtin()...)
	all = append(all, relaying()...)
	return append(all, replicas()...)
}

func starting() Case {
	return Case{
		Name: "start", Title: "start to ready on an empty directory", Run: runStart,
		Metrics: []Metric{{Name: "ready", Unit: "ms", Goal: Ratio(1. / 8)}, {Name: "served", Unit: "ms"}},
	}
}

func memory() Case {
	return Case{
		Name: "memory", Title: "resident memory, settled", Run: runMemory,
		Metrics: []Metric{{Name: "idle", Unit: "MB", Goal: Ratio(1. / 4)}, {Name: "filled", Unit: "MB", Goal: Ratio(1. / 5)}},
	}
}

// createCost is what a create of 1 KB may cost the server's CPU whatever it costs
// upstream, in microseconds.
const createCost = 130

func creating() []Case {
	allocs := Metric{Name: "allocs"}
	var all []Case
	for _, c := range []struct {
		clients int
		rate    float64
	}{{1, 2}, {16, 8}, {256, 10}} {
		cost := []Metric{{Name: "cpu", Unit: "us"}}
		if c.clients == 16 { // several goals, and so several rows: the first two are those with managed fields
			cost = []Metric{
				{Name: "rate", Unit: "/s", Goal: Times(6)},
				{Name: "cpu", Unit: "us", Goal: Ratio(1. / 8)},
				{Name: "cpu", Unit: "us", Goal: Ratio(1. / 10)},
				{Name: "cpu", Unit: "us", Goal: AtMost(createCost)},
			}
		}
		all = append(all, Case{
			Name: fmt.Sprintf("create-%d", c.clients), Title: fmt.Sprintf("create, %s", clients(c.clients)), Stage: Definition,
			Run: runCreate(load.Structured, c.clients),
			Metrics: slices.Concat([]Metric{{Name: "rate", Unit: "/s", Goal: Times(c.rate)}}, cost, []Metric{
				{Name: "p99", Unit: "ms"}, allocs,
			}),
		})
	}
	return all
}

func patching() []Case {
	var all []Case
	for _, c := range []struct {
		clients int
		cpu     float64
	}{{1, 1. / 4}, {64, 1. / 10}} {
		all = append(all, Case{
			Name: fmt.Sprintf("patch-hot-%d", c.clients), Title: "merge patch of one object, " + clients(c.clients),
			Stage: Definition,
			Run:   runPatch(c.clients), Metrics: []Metric{
				{Name: "rate", Unit: "/s"},
				{Name: "cpu", Unit: "us", Goal: Ratio(c.cpu)},
				{Name: "p99", Unit: "ms"},
				{Name: "refused", Goal: AtMost(0)},
			},
		})
	}
	return all
}

func clients(n int) string {
	if n == 1 {
		return "1 client"
	}
	return fmt.Sprintf("%d clients", n)
}

func listing() []Case {
	var all []Case
	for _, kind := range []struct {
		name, title string
		read        reading
		goal        float64
	}{
		{"list", "LIST of 10 000, unpaged", reading{}, 25},
		{"list-limit", "LIST of 10 000, limit=500", reading{limit: 500}, 20},
		{"list-gzip", "LIST of 10 000, gzip", reading{gzip: true}, 25},
		{"list-stream", "streaming initial list of 10 000", reading{stream: true}, 20},
	} {
		for _, n := range []int{1, 8} {
			read := kind.read
			read.clients = n
			all = append(all, Case{
				Name: fmt.Sprintf("%s-%d", kind.name, n), Title: fmt.Sprintf("%s, %s", kind.title, clients(n)), Stage: Objects,
				Run: runList(read), Metrics: []Metric{
					{Name: "cpu", Unit: "ms", Goal: Ratio(1 / kind.goal)}, {Name: "p50", Unit: "ms"}, {Name: "size", Unit: "MB"},
				},
			})
		}
	}
	return all
}

func resume() Case {
	return Case{
		Name: "resume", Title: "1 000 resumes from recent resourceVersions, 500 events each", Stage: Objects, Run: runResume,
		Metrics: []Metric{
			{Name: "cpu", Unit: "us/event", Goal: Ratio(1. / 15)}, {Name: "rate", Unit: "events/s"}, {Name: "p99", Unit: "ms"},
		},
	}
}

func resumingFar() []Case {
	var all []Case
	for _, updates := range []int{1000, 10_000, 100_000} {
		all = append(all, Case{
			Name: fmt.Sprintf("resume-far-%d", updates), Title: fmt.Sprintf("8 resumes at once, %d updates back", updates),
			Stage: Definition, Ours: true,
			Run: runResumeFar(updates),
			Metrics: []Metric{
				{Name: "cpu", Unit: "us/event", Goal: AtMost(10)}, {Name: "rate", Unit: "events/s"}, {Name: "p99", Unit: "ms"},
			},
		})
	}
	return all
}

// floodGoals are what a flood promises.
type floodGoals struct{ rate, cpu, p99 Goal }

// flood is a case of watchers while writers write flat out.
func flood(name, title string, w crowd, goals floodGoals) Case {
	return Case{
		Name: name, Title: title, Stage: Definition, Run: runFlood(w), Metrics: []Metric{
			{Name: "rate", Unit: "events/s", Goal: goals.rate},
			{Name: "cpu", Unit: "us/event", Goal: goals.cpu},
			{Name: "p99", Unit: "ms", Goal: goals.p99},
			{Name: "writes", Unit: "/s"},
			{Name: "cut"},
		},
	}
}

// rendering is what a form of answers costs: an event is rendered once for all watchers
// that ask for the same form.
func rendering() []Case {
	var all []Case
	for _, c := range []struct {
		name, title string
		form        form
		cpu         float64
	}{
		{"watch-json", "whole objects", whole, 0.4},
		{"watch-table", "tables", tables, 0.4},
		{"watch-metadata", "metadata only", metadata, 0.4},
	} {
		all = append(all,
			flood(c.name, "500 watchers of "+c.title+", flat out, HTTP/1.1", crowd{form: c.form}, floodGoals{cpu: Ratio(c.cpu)}))
	}
	return all
}

func watching() []Case {
	return []Case{
		flood("watch-h1", "1 000 watchers, flat out, HTTP/1.1", crowd{}, floodGoals{Times(2.5), Ratio(0.4), Ratio(0.5)}),
		flood("watch-h2", "1 000 watchers, flat out, HTTP/2, 10 connections", crowd{multiplexed: true}, floodGoals{
			Times(3), Ratio(0.35), Ratio(0.3),
		}),
		flood("watch-5000", "5 000 watchers, flat out, HTTP/1.1", crowd{large: true}, floodGoals{
			Times(2), Ratio(0.55), Ratio(0.5),
		}),
		{
			Name: "watch-one", Title: "100 watchers on one HTTP/2 connection, flat out", Stage: Definition,
			Run: runFlood(crowd{single: true}),
			Metrics: []Metric{
				{Name: "cut", Goal: AtMost(0)},
				{Name: "p99", Unit: "ms", Goal: AtMost(100)},
				{Name: "rate", Unit: "events/s"},
				{Name: "cpu", Unit: "us/event"},
				{Name: "writes", Unit: "/s"},
			},
		},
		{
			Name: "watch-paced", Title: "1 000 watchers, 5 updates/s, HTTP/1.1", Stage: Definition, Run: runPaced,
			Metrics: []Metric{
				{Name: "cpu", Unit: "us/event", Goal: Ratio(0.4)}, {Name: "p99", Unit: "ms", Goal: Ratio(0.4)}, {Name: "cut"},
			},
		},
	}
}

func selecting() []Case {
	var all []Case
	for _, by := range []string{"namespace", "field", "label"} {
		all = append(all, Case{
			Name: "select-" + by, Title: "5 000 watchers that each select 1/5000, by " + by, Stage: Shards, Run: runSelect(by),
			Metrics: []Metric{
				{Name: "cpu", Unit: "us/write", Goal: Ratio(1. / 20)},
				{Name: "unwatched", Unit: "us/write"},
				{Name: "writes", Unit: "/s"},
				{Name: "p99", Unit: "ms"},
			},
		})
	}
	return all
}

func idling() []Case {
	return []Case{
		{
			Name: "idle-h1", Title: "memory per idle watcher, HTTP/1.1", Stage: Definition, Fresh: true,
			Run:     runIdle(crowd{large: true}),
			Metrics: []Metric{{Name: "memory", Unit: "KB", Goal: Ratio(0.4)}},
		},
		{
			Name: "idle-h2", Title: "memory per idle watcher, HTTP/2", Stage: Definition, Fresh: true,
			Run:     runIdle(crowd{large: true, multiplexed: true}),
			Metrics: []Metric{{Name: "memory", Unit: "KB", Goal: Ratio(1. / 4)}},
		},
	}
}

func concurrentLists() Case {
	return Case{
		Name: "concurrent-lists", Title: "200 clients list 10 000 at once", Stage: Objects, Fresh: true, Once: true,
		Run: runConcurrentLists,
		Metrics: []Metric{
			{Name: "time", Unit: "s", Goal: Ratio(1. / 20)},
			{Name: "peak", Unit: "MB", Goal: Ratio(1. / 40)},
			{Name: "cut", Goal: AtMost(0)},
		},
	}
}
