// Package scale says what a tree of servers and relays needs for more watchers than one machine holds, by what one server
// was measured to need, and plays such a tree event by event.
//
// [Costs] are of one server. A [Load] is watchers that all see all changes of one resource. [Plan] returns the [Tier]s
// between the server that is written to and the watchers; [Play] plays them, and returns how late events arrive.
package scale

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Costs are what one server needs: CPU, but for Idle.
type Costs struct {
	Write  time.Duration // a create or an update, with all that is done for it until it is answered
	Serial time.Duration // the part of it that one processor does at a time for a resource: log, watch cache
	Mirror time.Duration // a change that a relay takes over from upstream
	Event  time.Duration // a change to one watcher that waits for it
	Idle   float64       // bytes of memory that a watch needs
}

// Load is what the tree has to do.
type Load struct {
	Watchers int
	Changes  float64 // per second, each to all watchers
	// Within is how long a tier may take until its last watcher has a change, when nothing else is to be done.
	Within time.Duration
}

// Machine is what each server runs on.
type Machine struct {
	Processors int
	Share      float64 // of the processors that may be used on average, less than 1
	Memory     float64 // bytes for watches
}

// Tier is servers beside each other, of which all watch the tier above.
type Tier struct {
	Servers  int
	Watchers int     // of each server: its share of the tier below
	Used     float64 // of the processors of each, on average
	Memory   float64 // bytes of each, for watches
}

// Errors of Plan.
var (
	// ErrWrites is that more is written than one processor can put in order.
	ErrWrites = errors.New("one processor cannot put so many changes in order")
	// ErrServer is that one server has too much to do before anybody watches it.
	ErrServer = errors.New("a server has no time left for watchers")
)

// Plan returns the tiers, the server that is written to first. Each has as few servers as can be.
func Plan(c Costs, l Load, m Machine) ([]Tier, error) {
	if l.Watchers <= 0 || l.Changes <= 0 || m.Processors <= 0 || m.Share <= 0 || m.Share >= 1 {
		return nil, fmt.Errorf("plan %+v on %+v: counts must be positive, and the share less than 1", l, m)
	}
	if busy := l.Changes * c.Serial.Seconds(); busy > m.Share {
		return nil, fmt.Errorf("%w: %.0f/s keep it busy for %.0f %% of the time, more than %.0f %%",
			ErrWrites, l.Changes, 100*busy, 100*m.Share)
	}
	top, err := most(c, l, m, c.Write)
	if err != nil {
		return nil, err
	}
	var tiers []Tier
	for below := l.Watchers; ; {
		if below <= top {
			return append([]Tier{tier(c, l, m, 1, below, c.Write)}, tiers...), nil
		}
		each, err := most(c, l, m, c.Mirror)
		if err != nil {
			return nil, err
		}
		servers := (below + each - 1) / each
		if servers == below {
			return nil, fmt.Errorf("%w: each relay serves one", ErrServer)
		}
		tiers = append([]Tier{tier(c, l, m, servers, (below+servers-1)/servers, c.Mirror)}, tiers...)
		below = servers
	}
}

// most returns how many watchers a server can have that needs so much for a change itself.
func most(c Costs, l Load, m Machine, own time.Duration) (int, error) {
	processors := float64(m.Processors)
	byTime := (m.Share*processors/l.Changes - own.Seconds()) / c.Event.Seconds()
	byDelay := l.Within.Seconds() * processors / c.Event.Seconds()
	n := int(math.Floor(min(byTime, byDelay, m.Memory/c.Idle)))
	if n < 1 {
		return 0, fmt.Errorf("%w: %.0f changes/s take it %.2f of %d processors, %.1f GB are for watches",
			ErrServer, l.Changes, l.Changes*own.Seconds(), m.Processors, m.Memory/1e9)
	}
	return n, nil
}

func tier(c Costs, l Load, m Machine, servers, watchers int, own time.Duration) Tier {
	perChange := own.Seconds() + float64(watchers)*c.Event.Seconds()
	return Tier{
		Servers: servers, Watchers: watchers, Used: l.Changes * perChange / float64(m.Processors),
		Memory: float64(watchers) * c.Idle,
	}
}
