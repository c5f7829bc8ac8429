package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// OrderVariable is the variable of the environment that makes a process an attacker.
const OrderVariable = "GAPLESS_ATTACK"

// Report says what an attack cost.
type Report struct {
	Attack Attack
	Calm   map[string]Latency // of the bystander, alone
	Under  map[string]Latency // under the attack
	Failed []string           // what the bystander did not get
	Seen   map[string]int     // by the attackers
	Counts map[string]int     // gapless_refused_total, by reason
	// Resident sets in KB.
	Before, Peak, After int
}

// worst is the largest p99 of all kinds of work.
func worst(of map[string]Latency) (p50, p99 time.Duration) {
	for _, l := range of {
		p50, p99 = max(p50, l.P50), max(p99, l.P99)
	}
	return p50, p99
}

// Row is a line of the table.
func (r Report) Row() string {
	calm50, calm99 := worst(r.Calm)
	p50, p99 := worst(r.Under)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)) }
	return fmt.Sprintf("| %s | %s / %s | %s / %s | %d | %d | %d | %d | %+d %% | %s |", r.Attack.Name, ms(calm50), ms(calm99),
		ms(p50), ms(p99), len(r.Failed),
		r.Before>>10, r.Peak>>10, r.After>>10, (r.After-r.Before)*100/r.Before, format(r.Counts))
}

// Header is what stands above the rows.
const Header = `| attack | calm, p50 / p99, ms | attacked, p50 / p99,` +
	` ms | failed | MB before | most | after | change | refused, by reason |
|---|---|---|---|---|---|---|---|---|`

func format(counts map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if counts[k] > 0 {
			out = append(out, fmt.Sprintf("%s %d", k, counts[k]))
		}
	}
	return strings.Join(out, ", ")
}

// String is for logs.
func (r Report) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %d MB before, %d at most, %d afterwards\n", r.Attack.Name, r.Before>>10, r.Peak>>10, r.After>>10)
	for _, what := range slices.Sorted(maps.Keys(r.Under)) {
		calm, under := r.Calm[what], r.Under[what]
		fmt.Fprintf(&out, "  %-16s calm p50 %v p99 %v of %d; attacked p50 %v p99 %v max %v of %d\n", what,
			calm.P50.Round(time.Microsecond*100), calm.P99.Round(time.Microsecond*100), calm.Count,
			under.P50.Round(time.Microsecond*100), under.P99.Round(time.Microsecond*100), under.Max.Round(time.Millisecond),
			under.Count)
	}
	fmt.Fprintf(&out, "  attackers: %s\n  refused: %s\n", format(r.Seen), format(r.Counts))
	for i, f := range r.Failed {
		if i == 10 {
			fmt.Fprintf(&out, "  … %d failures\n", len(r.Failed))
			break
		}
		fmt.Fprintf(&out, "  FAILED %s\n", f)
	}
	return out.String()
}

// Play measures the bystander alone, starts the attackers, measures it again, and
// waits until the memory is released.
func (t *Target) Play(ctx context.Context, attack Attack, size Size) (Report, error) {
	r := Report{Attack: attack, Seen: map[string]int{}}
	refused, err := t.Refused(ctx)
	if err != nil {
		return r, err
	}
	if r.Calm, err = t.calm(ctx, time.Duration(size.of(1, 4))*time.Second, &r); err != nil {
		return r, err
	}
	if r.Before, err = t.settled(ctx, time.Duration(size.of(0, 12))*time.Second); err != nil {
		return r, err
	}
	if err := t.resetPeak(); err != nil {
		return r, err
	}
	for tries := 1; ; tries++ {
		if err := t.attacked(ctx, size, &r); err != nil {
			return r, err
		}
		if r.Counts, err = t.refusedSince(ctx, refused); err != nil {
			return r, err
		}
		// Beside other tests an attacker may get too little of the processors at first.
		if size == Full || r.Reached() || tries == shortTries {
			break
		}
	}
	if r.Peak, err = t.memory("VmHWM"); err != nil {
		return r, err
	}
	pause(ctx, time.Duration(size.of(0, 5))*time.Second)
	r.After, err = t.settled(ctx, time.Duration(size.of(0, 30))*time.Second)
	return r, err
}

// shortTries is how often the short form of an attack is played until it is refused.
const shortTries = 4

// Reached reports whether the attack was refused as it should be, which was counted, and
// the attackers saw it.
func (r Report) Reached() bool {
	return anyOf(r.Counts, r.Attack.Refused) && anyOf(r.Seen, r.Attack.Expected)
}

// anyOf reports whether one of the names was counted, or there are none.
func anyOf(counts map[string]int, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return counts[name] > 0 })
}

// refusedSince returns how many requests were refused by reason since before.
func (t *Target) refusedSince(ctx context.Context, before map[string]int) (map[string]int, error) {
	counts, err := t.Refused(ctx)
	for reason, n := range before {
		counts[reason] -= n
	}
	return counts, err
}

func (t *Target) calm(ctx context.Context, d time.Duration, r *Report) (map[string]Latency, error) {
	b := &Bystander{server: t.server, took: map[string][]time.Duration{}}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := b.work(ctx, "calm")
	r.Failed = append(r.Failed, b.failed...)
	return b.latencies(), err
}

// attacked runs attackers and the bystander concurrently.
func (t *Target) attacked(ctx context.Context, size Size, r *Report) error {
	lasts := r.Attack.Lasts(size)
	b := &Bystander{server: t.server, took: map[string][]time.Duration{}}
	processes := max(1, size.of(1, r.Attack.Processes))
	seen := make([]map[string]int, processes)
	g, ctx := errgroup.WithContext(ctx)
	for i := range processes {
		g.Go(func() (err error) {
			seen[i], err = t.attack(ctx, Order{
				Attack: r.Attack.Name, Host: t.server.Host(), Dir: t.dir, Size: size, Share: processes, Seconds: lasts.Seconds(),
			})
			return err
		})
	}
	g.Go(func() error {
		ctx, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		return b.work(ctx, "attacked")
	})
	err := g.Wait()
	r.Failed, r.Under = append(r.Failed, b.failed...), b.latencies()
	for _, counts := range seen {
		for what, n := range counts {
			r.Seen[what] += n
		}
	}
	return err
}

// attackerNice is the niceness of attackers: they stand for other machines, and
// should not take the server's processors.
const attackerNice = 10

// attack runs an attacker in a process of its own: the program that this is.
func (t *Target) attack(ctx context.Context, o Order) (counts map[string]int, err error) {
	order, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, own)
	cmd.Env = append(os.Environ(), OrderVariable+"="+string(order))
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, attackerNice) // only the figures are worse without it
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("attacker: %w\n%s", err, said.String())
	}
	if said.Len() > 0 {
		fmt.Fprint(os.Stderr, said.String())
	}
	return counts, json.Unmarshal(out.Bytes(), &counts)
}
