package campaign

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/load"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

// outage measures for how long no write was acknowledged.
type outage struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func (o *outage) acknowledged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.longest, o.last = max(o.longest, time.Since(o.last)), time.Now()
}

func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.longest = time.Now(), 0
}

func (o *outage) end() time.Duration {
	o.acknowledged()
	return o.longest
}

// moves measures how soon the watches of a killed replica go on at another one.
type moves struct {
	mu     sync.Mutex
	killed string // URL of the last replica that was killed while nothing else failed
	at     time.Time
	took   []time.Duration
}

func (m *moves) kill(url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.killed, m.at = url, time.Now()
}

func (m *moves) wentOn(i load.Interruption) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if since := i.Ended.Sub(m.at); i.From == m.killed && since > -time.Second && since < time.Second {
		m.took = append(m.took, i.Took)
	}
}

// Report is what was done and found.
type Report struct {
	record.Totals
	Faults     int
	Kinds      map[string]*Kind
	Failovers  []time.Duration // how long watches of a killed replica had no event or bookmark of another one
	Holes      int
	Histories  int // checked for linearizability
	Operations int // in them
	Undecided  int // histories that took too long to check
	Took       time.Duration
}

// Kind is what was seen of faults of one kind.
type Kind struct {
	Outages []time.Duration // for how long no write was acknowledged
}

func (r *Report) add(kind string, outage time.Duration) {
	if r.Kinds[kind] == nil {
		r.Kinds[kind] = &Kind{}
	}
	r.Kinds[kind].Outages = append(r.Kinds[kind].Outages, outage)
}

// String is the end of a run.
func (r Report) String() string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(r.Kinds)) {
		text += fmt.Sprintf("%-62s no write for %s\n", name, spread(r.Kinds[name].Outages))
	}
	return text + fmt.Sprintf(`%d faults in %v, %d checks, %d holes
%d writes: %d acknowledged, %d refused, %d found no server, %d of unknown outcome
%d watch events, %d times 410 for a watch, %d for a list; %d lists compared with the events, %d not comparable; %d gets
watches of a killed replica went on at another one: %s
%d operations in %d histories checked for linearizability, %d undecided
%d violations`,
		r.Faults, r.Took.Round(time.Second), r.Checks, r.Holes, r.Attempts, r.Acknowledged, r.Refused, r.Unsent, r.Unknown,
		r.Events, r.Gaps, r.Expired, r.Lists, r.ListsSkipped, r.Gets, spread(r.Failovers), r.Operations, r.Histories, r.Undecided,
		r.Violations)
}

// spread shows how long something took.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "(never measured)"
	}
	all = slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%v (median), %v (longest) of %d", all[len(all)/2].Round(time.Millisecond),
		all[len(all)-1].Round(time.Millisecond), len(all))
}
