// Package crash tests that a killed server loses no acknowledged write, and that
// no watcher misses or repeats a change. It runs the built program, kills it with
// SIGKILL at random moments, also while it recovers, and checks after a restart
// what its clients were answered.
//
// A [Config] says what to run. A [Report] has what was done and found. Package load has the
// clients, record keeps the answers that they got, and linear checks single objects for
// linearizability.
package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gapless-io/gapless/conformance/crash/linear"
	"github.com/gapless-io/gapless/conformance/crash/load"
	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

const (
	// busy is the longest time between a restart and the next kill.
	busy = 1200 * time.Millisecond
	// early and earliest are the longest times that a process lives which is killed
	// as it starts: half of them each. With few data it starts in tens of milliseconds.
	early    = 300 * time.Millisecond
	earliest = 40 * time.Millisecond
	// epochChecks is how many checks pass until a history is checked for
	// linearizability, and new keys are used.
	epochChecks = 4
	// linearLimit is how long one history may take to check.
	linearLimit = 20 * time.Second
	// progressEvery is how many kills pass between two lines of progress.
	progressEvery = 20
)

// Config says what to run.
type Config struct {
	Program string // path of the built program
	Dir     string // for data, the server's log and histories; it must be empty
	Kills   int
	Seed    uint64 // makes all choices repeatable; when things happen is not
	Out     io.Writer
	Writers int
	Readers int
	// Pause is the mean time between two writes of a writer.
	Pause time.Duration
	// AfterKill, if there is one, is called after the n-th kill, before the next start.
	AfterKill func(n int)
}

// Report is what was done and found.
type Report struct {
	record.Totals
	Kills      int
	EarlyKills int // of them, as many met a process that did not yet serve
	Shortages  int // of file handles, before a kill
	Histories  int // checked for linearizability
	Operations int // in them
	Undecided  int // histories that took too long to check
	Took       time.Duration
	// Saved are the files of histories that are not linearizable, or undecided.
	Saved []string
}

// String is the last line of a run.
func (r Report) String() string {
	return fmt.Sprintf(`%d kills (%d of them during start-up, %d after a shortage of file handles) in %v, %d checks
%d writes: %d acknowledged, %d refused, %d found no server, %d of unknown outcome
%d watch events, %d gaps (410); %d lists compared with the events, %d not comparable; %d gets
%d operations in %d histories checked for linearizability, %d undecided
%d violations`,
		r.Kills, r.EarlyKills, r.Shortages, r.Took.Round(time.Second), r.Checks, r.Attempts, r.Acknowledged, r.Refused, r.Unsent,
		r.Unknown,
		r.Events, r.Gaps, r.Lists, r.ListsSkipped, r.Gets, r.Operations, r.Histories, r.Undecided, r.Violations)
}

// run is one run of the kill loop.
type run struct {
	cfg    Config
	server *program.Server
	record *record.Record
	load   *load.Load
	random *rand.Rand
	report Report
	said   int // violations that were printed
	last   int // kills at the last line of progress
	checks int // since the last history was checked
}

// Run kills the server until it was killed cfg.Kills times. An error says why the
// run could not continue; violations are no error, but in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	server, err := program.New(program.Config{Path: cfg.Program, Dir: cfg.Dir, Flags: []string{
		"--history", "5s", "--history-bytes", "8Mi", "--log-level", "warn",
		"--bootstrap", "server", // it writes at each start, and no config maps: the record knows of every one
	}})
	if err != nil {
		return Report{}, err
	}
	r := &run{cfg: cfg, server: server, record: record.New(), random: rand.New(rand.NewPCG(cfg.Seed, 0))}
	err = errors.Join(r.run(ctx), server.Close())
	r.say()
	r.report.Totals = r.record.Totals()
	r.report.Took = r.record.Now()
	if err != nil || r.report.Violations > 0 {
		fmt.Fprintf(cfg.Out, "the server said last:\n%s\n", server.Log(4<<10))
	}
	return r.report, err
}

func (r *run) run(ctx context.Context) error {
	if err := r.server.Start(ctx); err != nil {
		return err
	}
	var err error
	r.load, err = load.New(ctx, load.Config{
		Server: r.server, Record: r.record, Seed: r.cfg.Seed, Writers: r.cfg.Writers, Readers: r.cfg.Readers,
		Pause: r.cfg.Pause, Compact: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer r.load.Close()
	working, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	clients.Go(func() { r.load.Run(working) }) // ends with working
	if _, err := r.load.Verify(ctx); err != nil {
		return err
	}
	r.load.Release()
	for r.report.Kills < r.cfg.Kills {
		if err := r.round(ctx); err != nil {
			return err
		}
		r.progress()
	}
	return nil
}

// round lets the server work, kills it, perhaps kills the next processes as they
// start, and then mostly checks.
func (r *run) round(ctx context.Context) error {
	if err := sleep(ctx, 30*time.Millisecond+r.upTo(busy)); err != nil {
		return err
	}
	if r.random.IntN(100) < 15 {
		if err := r.shortage(ctx); err != nil {
			return err
		}
	}
	r.kill()
	for r.random.IntN(100) < 35 && r.report.Kills < r.cfg.Kills {
		if err := r.server.Exec(); err != nil {
			return err
		}
		if err := sleep(ctx, r.upTo([]time.Duration{early, earliest}[r.random.IntN(2)])); err != nil {
			return err
		}
		if !r.server.Serves() {
			r.report.EarlyKills++
		}
		r.kill()
	}
	check := r.random.IntN(100) < 70 || r.report.Kills >= r.cfg.Kills
	if check {
		if err := r.load.Hold(ctx); err != nil {
			return err
		}
	}
	if err := r.server.Start(ctx); err != nil {
		r.record.Violation("start after kill %d: %v", r.report.Kills, err)
		return err
	}
	if !check {
		return nil
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	r.load.Release()
	return nil
}

// shortage takes the file handles from the server for a while. Mostly it gets them
// back before it is killed.
func (r *run) shortage(ctx context.Context) error {
	if err := r.server.TakeHandles(); err != nil {
		return err
	}
	r.report.Shortages++
	if err := sleep(ctx, r.upTo(busy)); err != nil || r.random.IntN(100) < 30 {
		return err
	}
	if err := r.server.GiveHandles(); err != nil {
		return err
	}
	return sleep(ctx, r.upTo(busy/2))
}

func (r *run) kill() {
	if err := r.server.Kill(); err != nil {
		r.record.Violation("before kill %d: %v", r.report.Kills+1, err)
	}
	r.load.Register.Killed()
	r.report.Kills++
	if r.cfg.AfterKill != nil {
		r.cfg.AfterKill(r.report.Kills)
	}
}

// check verifies the record, and at the end of an epoch its history.
func (r *run) check(ctx context.Context) error {
	r.checks++
	if r.checks >= epochChecks || r.report.Kills >= r.cfg.Kills {
		r.checks = 0
		if err := r.linear(ctx); err != nil {
			return err
		}
	}
	_, err := r.load.Verify(ctx)
	return err
}

// history is the file of the newest history.
func (r *run) history() string {
	return filepath.Join(r.cfg.Dir, fmt.Sprintf("history-%d.json", r.report.Histories))
}

func (r *run) save(h linear.History) error {
	r.report.Saved = append(r.report.Saved, r.history())
	return h.Save(r.history())
}

// linear checks the history of an epoch, and saves it if it is not linearizable or
// took too long to check.
func (r *run) linear(ctx context.Context) error {
	h := linear.History{Seed: r.cfg.Seed, Ops: r.load.Register.End(ctx), Note: fmt.Sprintf("until kill %d", r.report.Kills)}
	r.report.Histories++
	r.report.Operations += len(h.Ops)
	switch result := h.Check(linearLimit).Result; result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		r.report.Undecided++
		return r.save(h)
	case porcupine.Illegal:
		r.record.Violation("a history of %d operations is not linearizable; check it again with: go run ./cmd/crash -replay %s",
			len(h.Ops), r.history())
		return r.save(h)
	}
	return nil
}

// progress prints new violations, and now and then how far the run has come.
func (r *run) progress() {
	r.say()
	if r.report.Kills-r.last < progressEvery {
		return
	}
	r.last = r.report.Kills
	t := r.record.Totals()
	fmt.Fprintf(r.cfg.Out, "%5d/%d kills %6.0f s %8d acknowledged %9d events %5d gaps %4d violations\n",
		r.report.Kills, r.cfg.Kills, r.record.Now().Seconds(), t.Acknowledged, t.Events, t.Gaps, t.Violations)
}

func (r *run) say() {
	for _, v := range r.record.Violations(r.said) {
		fmt.Fprintf(r.cfg.Out, "VIOLATION %s\n", v)
		r.said++
	}
}

func (r *run) upTo(d time.Duration) time.Duration { return time.Duration(r.random.Int64N(int64(d))) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
