// Command scale plans a tree of servers and relays for many watchers, by what one server was measured to need, and plays
// it. Without arguments it prints docs/scale.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gapless-io/gapless/bench/internal/cases"
	"github.com/gapless-io/gapless/bench/internal/scale"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run(args []string, out, stderr io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(stderr)
	record := flags.String("record", "log/results.json", "measured figures")
	var l scale.Load
	flags.IntVar(&l.Watchers, "watchers", 0, "watchers that see all changes of a resource; 0 prints the page")
	flags.Float64Var(&l.Changes, "changes", 1, "per second")
	flags.DurationVar(&l.Within, "within", within,
		"until the last watcher of a server has a change, if it has nothing else to do")
	m := machine(8)
	flags.IntVar(&m.Processors, "processors", m.Processors, "of each server")
	flags.Float64Var(&m.Share, "share", m.Share, "of the processors that may be used on average")
	flags.Float64Var(&m.Memory, "memory", m.Memory, "bytes of each server for watches")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := measured(*record)
	if err != nil {
		return err
	}
	if l.Watchers == 0 {
		text, err := page(c)
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	}
	row, err := planned(c, l, m)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, head+row)
	return err
}

// within is how long a tier of the page may take.
const within = 100 * time.Millisecond

// machine is what the page's servers run on.
func machine(processors int) scale.Machine {
	return scale.Machine{Processors: processors, Share: 0.5, Memory: 4e9}
}

// What is in no record: BenchmarkCommit/writers=256 of internal/store/revlog, whose whole process needs as much for a
// write, and one-relay of the case relay-watch-500, where each change has a disk's sync of its own.
const (
	serial = 15 * time.Microsecond
	mirror = 540 * time.Microsecond
)

// measured reads the unit costs from a record.
func measured(path string) (c scale.Costs, err error) {
	record, err := cases.ReadRecord(path)
	if err != nil {
		return c, err
	}
	of := map[string]float64{}
	for _, run := range record.Runs {
		for _, r := range run.Results {
			if r.Before == "" {
				of[r.Case+" "+r.Metric] = r.Gapless
			}
		}
	}
	us := func(name string) time.Duration { return time.Duration(of[name] * float64(time.Microsecond)) }
	c = scale.Costs{
		Write: us("create-16 cpu"), Serial: serial, Mirror: mirror, Event: us("watch-paced cpu"),
		Idle: of["idle-h1 memory"] * 1000,
	}
	if c.Write == 0 || c.Event == 0 || c.Idle == 0 {
		return c, errors.New("the record has no create-16, no watch-paced or no idle-h1")
	}
	return c, nil
}

const head = "| watchers | changes/s | processors each | servers | watchers each | used | memory for watches | p50 | p99 " +
	"| last |\n" +
	"|--:|--:|--:|---|---|--:|--:|--:|--:|--:|\n"

// planned is a row of the table: a tree and how late its events are.
func planned(c scale.Costs, l scale.Load, m scale.Machine) (string, error) {
	tiers, err := scale.Plan(c, l, m)
	if err != nil {
		return "", err
	}
	const events = 3_000_000 // as many as are played, or somewhat more
	each := tiers[len(tiers)-1].Watchers
	for range tiers[1:] {
		each *= 3
	}
	played := scale.Play(c, tiers, l, m, max(events/each, 20), 1)
	var servers, watchers []string
	var used, memory float64
	for _, t := range tiers {
		servers, watchers = append(servers, fmt.Sprint(t.Servers)), append(watchers, fmt.Sprint(t.Watchers))
		used, memory = max(used, t.Used), max(memory, t.Memory)
	}
	return fmt.Sprintf("| %d | %g | %d | %s | %s | %.0f %% | %.2f GB | %s | %s | %s |\n", l.Watchers, l.Changes, m.Processors,
		strings.Join(servers, " + "), strings.Join(watchers, ", "), 100*used, memory/1e9,
		round(played.P50), round(played.P99), round(played.Most)), nil
}

func round(d time.Duration) string { return d.Round(time.Millisecond).String() }
