// Package campaign tests that three replicas over three members of etcd lose no acknowledged write, and that
// no watcher misses, repeats or goes back behind a change, whatever fails: replicas and members are killed,
// paused and cut off, the leader of etcd moves, etcd is compacted, defragmented and out of space, while clients
// move between the replicas.
//
// A [Config] says what to run, a [Report] what was done and found. Package load has the clients, record
// compares the answers that they got, linear checks single objects for linearizability. Faults come from a seed;
// when things happen is not repeatable. Clocks are not changed: the processes have the one of the machine.
package campaign

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
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/conformance/crash/linear"
	"github.com/gapless-io/gapless/conformance/crash/load"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

const (
	members  = 3
	replicas = 3
	// compactEvery is how often a replica compacts etcd, to where that was at the last time: never what a
	// registered one has not reached, nor what one needs that was away for less than that.
	compactEvery = 15 * time.Second
	// calm is the longest time before a fault, and between its end and a check.
	calm = 500 * time.Millisecond
	// rounds is how many rounds of faults pass until everything is checked.
	rounds = 4
	// healLimit is how long a replica may take to be ready after the last fault has ended: etcd's alarms are
	// looked at every ten seconds.
	healLimit = 3 * time.Minute
	// linearLimit is how long one history may take to check.
	linearLimit = 20 * time.Second
)

// Config says what to run.
type Config struct {
	Program string // path of the built program
	Dir     string // for data, logs and histories; it must be empty
	Faults  int    // how many; 0: as many as there is time for
	For     time.Duration
	Seed    uint64        // makes all choices repeatable; when things happen is not
	Port    func() string // returns a port of the loopback address that nobody else uses
	Out     io.Writer
	Writers int
	// Watchers is how many there are; 24 make it proof.
	Watchers int
	Readers  int
	// Pause is the mean time between two writes of a writer, two reads of a reader, and two operations of one of
	// the clients whose operations are checked for linearizability.
	Pause time.Duration
	// Election is for how long members of etcd wait for a leader that is silent, and replicas for etcd; 0: their
	// defaults, a second and two.
	Election time.Duration
	// AfterRound, if there is one, is called after each round of faults, with a client of etcd.
	AfterRound func(ctx context.Context, etcd *clientv3.Client) error
}

// run is one campaign.
type run struct {
	cfg     Config
	cluster *cluster
	record  *record.Record
	load    *load.Load
	random  *rand.Rand
	report  Report
	begin   time.Time
	said    int // violations that were printed
	down    map[*replica]bool
	missed  int64 // the revision to which etcd was compacted while a replica was away
	safe    int64 // a revision that every replica had reached when all were ready
	outage  outage
	moves   moves

	mu sync.Mutex
	// mu guards what follows.
	dice *rand.Rand
	out  map[string]bool // URLs of replicas to which no client is sent
}

// Run runs a campaign. An error says why it could not continue; violations are no error, but in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	r := &run{
		cfg: cfg, record: record.NewSeveral(), random: rand.New(rand.NewPCG(cfg.Seed, 0)),
		dice: rand.New(rand.NewPCG(cfg.Seed, 1)), out: map[string]bool{}, down: map[*replica]bool{}, begin: time.Now(),
	}
	r.report.Kinds = map[string]*Kind{}
	var err error
	if r.cluster, err = newCluster(ctx, cfg); err != nil {
		return r.report, err
	}
	err = errors.Join(r.run(ctx), r.cluster.close())
	r.say()
	r.report.Totals, r.report.Took = r.record.Totals(), time.Since(r.begin)
	r.report.Failovers = r.moves.took
	return r.report, err
}

func (r *run) run(ctx context.Context) error {
	var urls []string
	for _, replica := range r.cluster.replicas {
		urls = append(urls, replica.url())
	}
	if err := r.heal(ctx); err != nil { // all have caught up
		return err
	}
	var err error
	r.load, err = load.New(ctx, load.Config{
		Server: r.cluster.replicas[0].server, Record: r.record, Seed: r.cfg.Seed, Writers: r.cfg.Writers,
		Readers: r.cfg.Readers, Watchers: r.cfg.Watchers, Pause: r.cfg.Pause, Calm: r.cfg.Pause,
		Several: &load.Several{Pick: r.pick, All: urls, Acknowledged: r.outage.acknowledged, WentOn: r.moves.wentOn},
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
	if err := r.check(ctx); err != nil {
		return err
	}
	r.load.Release()
	for n := 1; !r.done(); n++ {
		if err := r.round(ctx); err != nil {
			return err
		}
		if r.cfg.AfterRound != nil {
			if err := r.cfg.AfterRound(ctx, r.cluster.client); err != nil {
				return err
			}
		}
		if n%rounds == 0 || r.done() {
			if err := r.hold(ctx); err != nil {
				return err
			}
		}
		r.say()
	}
	return nil
}

func (r *run) done() bool {
	return r.cfg.Faults > 0 && r.report.Faults >= r.cfg.Faults || r.cfg.For > 0 && time.Since(r.begin) > r.cfg.For
}

// pick returns a replica for the next request of a client: any, as a balancer does that does not know yet
// what fails.
func (r *run) pick() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if url := r.cluster.replicas[r.dice.IntN(replicas)].url(); !r.out[url] {
			return url
		}
	}
}

// away keeps clients from a replica, and ends what they have there.
func (r *run) away(of *replica) {
	r.mu.Lock()
	r.out[of.url()] = true
	r.mu.Unlock()
	of.clients.cut()
}

func (r *run) back(of *replica) {
	of.clients.restore()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.out, of.url())
}

// round lets everything work, and lets one thing fail, or two at once.
func (r *run) round(ctx context.Context) error {
	if err := sleep(ctx, r.upTo(calm)); err != nil {
		return err
	}
	faults := []fault{r.choose()}
	if !faults[0].alone && r.random.IntN(100) < 25 {
		if second := r.choose(); !second.alone {
			faults = append(faults, second)
		}
	}
	r.outage.begin()
	names := ""
	for i, f := range faults {
		if i > 0 {
			names += " and "
		}
		names += f.name
		r.report.Faults++
		if err := f.start(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if err := sleep(ctx, r.upTo(faults[0].lasts)); err != nil {
		return err
	}
	if err := r.heal(ctx); err != nil {
		return fmt.Errorf("after %s: %w", names, err)
	}
	outage := r.outage.end()
	r.report.add(names, outage)
	fmt.Fprintf(r.cfg.Out, "%4d %6.1f s  %-60s no write for %v\n", r.report.Faults, time.Since(r.begin).Seconds(), names,
		outage.Round(time.Millisecond))
	return nil
}

// hold stops the writers, checks everything, and lets them go on.
func (r *run) hold(ctx context.Context) error {
	if err := r.load.Hold(ctx); err != nil {
		return err
	}
	if err := r.linear(ctx); err != nil {
		return err
	}
	if err := r.check(ctx); err != nil {
		return err
	}
	r.load.Release()
	return nil
}

// check compares the record with what all replicas show, and that with what etcd has. A write without an answer
// may take effect in between: then both are asked again.
func (r *run) check(ctx context.Context) error {
	var differs string
	for range 3 {
		states, err := r.load.Verify(ctx)
		if err != nil {
			return err
		}
		if differs, err = r.compare(ctx, states); err != nil || differs == "" {
			return err
		}
	}
	r.record.Violation("%s", differs)
	return nil
}

// linear checks the history of an epoch, and saves it if it is not linearizable or took too long to check.
func (r *run) linear(ctx context.Context) error {
	h := linear.History{Seed: r.cfg.Seed, Ops: r.load.Register.End(ctx), Note: fmt.Sprintf("until fault %d", r.report.Faults)}
	r.report.Histories++
	r.report.Operations += len(h.Ops)
	result := h.Check(linearLimit).Result
	if result == porcupine.Ok {
		return nil
	}
	file := filepath.Join(r.cfg.Dir, fmt.Sprintf("history-%d.json", r.report.Histories))
	if result == porcupine.Unknown {
		r.report.Undecided++
	} else {
		r.record.Violation("a history of %d operations is not linearizable: %s", len(h.Ops), file)
	}
	return h.Save(file)
}

func (r *run) say() {
	for _, v := range r.record.Violations(r.said) {
		fmt.Fprintf(r.cfg.Out, "VIOLATION %s\n", v)
		r.said++
	}
}

func (r *run) upTo(d time.Duration) time.Duration {
	return time.Duration(r.random.Int64N(int64(d) + 1))
}

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

// until polls, for healLimit.
func until(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, healLimit, errors.New("waited in vain until "+what))
	defer cancel()
	for !ok() {
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
