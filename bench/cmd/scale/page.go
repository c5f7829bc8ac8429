package main

import (
	"fmt"
	"strings"

	"github.com/gapless-io/gapless/bench/internal/scale"
)

// page is docs/scale.md.
func page(c scale.Costs) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, `# To a million watchers

<!-- written by: cd bench && go run ./cmd/scale > ../docs/scale.md -->

What more watchers need than one machine has, computed: nobody has run it. The unit costs are measured
([performance.md](performance.md)), the trees are the smallest that keep within half of the processors, and a simulation
plays them event by event. `+"`cd bench && go run ./cmd/scale --watchers N --changes R`"+` does it for other numbers.

## What one server needs
| work | needs | measured by |
|---|--:|---|
| a create, with all that is done until it is answered | %d us | `+"`create-16`"+` |
| the part of it that is done one after another: log and watch cache of a resource | ≤ %d us | `+"`BenchmarkCommit`"+` |
| a relay takes over a change, with a sync of its own | %d us | `+"`relay-watch-500`"+`, one watcher |
| a change to one watcher that waits for it | %.1f us | `+"`watch-paced`"+` |
| an idle watch over HTTP/1.1 | %.0f KB | `+"`idle-h1`"+` |

A watcher that is behind gets several changes in a turn, for %s each; the trees do not count on that. What one machine
could be asked: a relay with 5 000 watchers of 50 changes a second needed 1.6 processors (`+"`relay-watch-5000`"+`), and would
get 5.6 here.

## Watchers that see everything
All agents of a cluster watch one resource, such as Services, and each sees each change. `+"`servers`"+` counts each
tier, from the server that is written to, `+"`gapless serve`"+`, to the relays that the watchers use; each relay has one
watch at the tier above it. `+"`used`"+` is the share of the processors, in the busiest tier. `+"`p50`"+`, `+"`p99`"+`
and `+"`last`"+` are from a write to its arrival, without the network: a tier takes up to %v until its last watcher has
a change.

`, c.Write.Microseconds(), c.Serial.Microseconds(), c.Mirror.Microseconds(), float64(c.Event.Nanoseconds())/1000, c.Idle/1000,
		"2.6 us", within)
	b.WriteString(head)
	for _, of := range []struct {
		watchers, processors int
		changes              float64
	}{{5000, 2, 50}, {100_000, 8, 1}, {1_000_000, 8, 1}, {1_000_000, 8, 10}, {1_000_000, 32, 10}, {1_000_000, 32, 100}} {
		row, err := planned(c, scale.Load{Watchers: of.watchers, Changes: of.changes, Within: within}, machine(of.processors))
		if err != nil {
			return "", err
		}
		b.WriteString(row)
	}
	return b.String() + rest(c), nil
}

// rest is what the page says of watchers that select, and of writes.
func rest(c scale.Costs) string {
	const nodes, pods = 1_000_000, 2000.
	relays := int(nodes*c.Idle/machine(8).Memory) + 1
	perRelay := pods * c.Mirror.Seconds()
	writes := machine(8).Share / c.Serial.Seconds()
	return fmt.Sprintf(`
## Watchers that select
Kubelets watch the pods of their own node: a change is for one watcher. A server finds it by an index, whatever the
number of watches ([growth.md](growth.md)), so that memory counts: %d watches need %d relays of 4 GB. Each
relay takes over all changes, and %.0f a second keep %.1f of its processors busy where each has a sync of its own;
changes that come together share it (98 000 a second in `+"`BenchmarkAppend`"+` of internal/mirror).
`+"`relay --shard`"+` divides resources, not objects.

## Leases
A million nodes renew a lease each every 10 s: 100 000 updates a second of one resource. Through HTTPS they need %.1f
processors. Order is the wall: all changes go through one log, those of a resource through one watch cache, %d us or less
each, so that **one server takes at most %.0f updates a second** with a processor that is half busy. More needs more
servers, and nothing divides leases between them but their clients. Over etcd it is etcd's order, and its limit is lower
(`+"`replica-creates-256`"+`).

## What it leaves out
Networks, their delays and their cards: a million watchers at 10 changes a second of 1.4 KB are 14 GB a second. TLS
handshakes when a relay ends and its watchers come to another one, which has their history. Lists, which a relay answers
from memory. A relay of a relay needs a token for the second one ([relay.md](relay.md)).
`, nodes, relays, pods, perRelay, 100_000*c.Write.Seconds(), c.Serial.Microseconds(), writes)
}
