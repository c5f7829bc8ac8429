// Package attacks runs attacks against the built program, while it measures a
// well-behaved client.
//
// An [Attack] is what an attacker does, written in one small file. An [Attacker] does it, in a
// process of its own, and counts the outcomes. A [Bystander] is the well-behaved client. A
// [Report] has the costs: the bystander's latencies, and the server's memory before, during
// and after the attack.
package attacks

import (
	"context"
	"time"
)

// Size is how large an attack is.
type Size int

// The sizes: Short is for CI, Full for the measured table.
const (
	Short Size = iota
	Full
)

// of picks a number by size.
func (s Size) of(short, full int) int {
	if s == Full {
		return full
	}
	return short
}

// Attack is one kind of misbehaviour.
type Attack struct {
	Name string
	// About says in a line what it does, at full size.
	About string
	// Short and Full are how long it lasts.
	Short, Full time.Duration
	// Processes is how many attackers there are at full size, where one process does
	// not have enough file handles; 0 is one.
	Processes int
	// OnConnections says that the attack is one on connections, or with many watches: a relay must
	// withstand it too.
	OnConnections bool
	// Flags of the server, for Short: so that a small attack reaches its limits.
	Flags []string
	// Refused are reasons of gapless_refused_total; the attack must be counted under
	// one of them. None: the attack is served, and must not harm the bystander.
	Refused []string
	// Expected are names of counters of which the attacker must have seen one.
	Expected []string

	run func(ctx context.Context, a *Attacker) error
}

// Lasts returns the duration of the attack.
func (a Attack) Lasts(s Size) time.Duration {
	if s == Full {
		return a.Full
	}
	return a.Short
}

// All are the attacks, in the order of the table.
func All() []Attack {
	return []Attack{
		rapidReset(identified), rapidReset(anonymous),
		pingFlood(identified), pingFlood(anonymous),
		settingsFlood(identified), settingsFlood(anonymous),
		continuationFlood(identified), continuationFlood(anonymous),
		slowHeaders(), slowBodies(),
		idleConnections(), handshakes(),
		manyWatches(), manyRequests(),
		wideBodies(), deepBodies(), costlyDefinitions(), costlyPatterns(),
		costlySelectors(), longOrders(), burst(),
	}
}
