package limit

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/wire"
)

// Requests bound the requests that are under way. One user may have at most half of each
// kind, and less when there are others. Zeros are defaults.
type Requests struct {
	// Reading and Writing are requests; the defaults are 400 and 200: apiserver config.go
	// MaxRequestsInFlight, MaxMutatingRequestsInFlight. As many watches as Reading may be
	// about to open.
	Reading, Writing int
	// Watches that are open; the default is 20 000.
	Watches int
	// Wait is how long a request waits for a place before it is refused; the default is
	// 5 s.
	Wait time.Duration
}

const (
	// leaseRequests are reserved for single leases: who leads, and whether a node is alive,
	// must not depend on how long lists and large bodies of others take.
	leaseRequests = 64
	// listSeat is how many objects of a list count as one request, and listSeats as how many it
	// counts at most: apiserver util/flowcontrol/request/config.go ObjectsPerSeat,
	// MaximumListSeatsLimit.
	listSeat  = 100
	listSeats = 10
	// spareRequests are reserved for /metrics, which must be served under full load.
	spareRequests = 8
	// bodyBytes bounds the bodies of requests that are under way.
	bodyBytes = 128 << 20
	// processorWithin is how long a request waits for a processor: the time of a few of the most
	// expensive requests.
	processorWithin = 15 * time.Second
	// queued is how many requests of a user wait for a place: each holds its body, and bodyBytes
	// bounds these.
	queued = 10_000
	// costlyRequests run or wait for a processor, and have a place among the requests that are
	// under way. A user has at most half of them, so that many large bodies leave room for its
	// small requests.
	costlyRequests = 64
	// fewestProcessors is one more than one user may have: the last one stays for somebody else,
	// also on a machine with one processor, which these share.
	fewestProcessors = 2
)

// Kind is one kind of load, with its places.
type Kind struct {
	name   string // in the metrics
	reason Reason
	places *Places
	waits  prometheus.Observer // how long requests have waited that got a place
}

// Load is the requests that are under way, by kind.
type Load struct {
	Reading, Writing Kind
	Spare            Kind // for /metrics, which must be served under full load
	Leases           Kind // requests for one lease
	Opening          Kind // watches that are not open yet
	Watches          Kind
	// Costly are the requests that need a processor for long: they take a place of Costly, then
	// one of Reading or Writing, then a processor.
	Costly Kind
	// Processors are for these: half of the processors, and at least fewestProcessors.
	Processors Kind

	bodies   Kind
	refusals *Refusals
	flow     flow
}

// NewLoad returns a load without requests.
func NewLoad(r Requests, refusals *Refusals) *Load {
	reading, wait := cmp.Or(r.Reading, 400), cmp.Or(r.Wait, 5*time.Second)
	flow := newFlow()
	kind := func(name string, reason Reason, places *Places) Kind {
		return Kind{name, reason, places, flow.wait.WithLabelValues(name, "true")}
	}
	return &Load{
		Reading: kind("read", InFlight, NewPlaces(reading, wait, queued)),
		Writing: kind("write", InFlight, NewPlaces(cmp.Or(r.Writing, 200), wait, queued)),
		Spare:   kind("metrics", InFlight, NewPlaces(spareRequests, wait, spareRequests)),
		Leases:  kind("lease", InFlight, NewPlaces(leaseRequests, wait, queued)),
		Opening: kind("open-watch", InFlight, NewPlaces(reading, wait, queued)),
		Watches: kind("watch", Watches, NewPlaces(cmp.Or(r.Watches, 20_000), 0, 0)),
		Costly:  kind("costly", Processor, NewPlaces(costlyRequests, wait, queued)),
		Processors: kind("processor",
			Processor, NewPlaces(max(fewestProcessors, runtime.GOMAXPROCS(0)/2), processorWithin, queued)),
		bodies:   kind("body-bytes", Bodies, NewPlaces(bodyBytes, wait, queued)),
		refusals: refusals, flow: flow,
	}
}

// Seats returns as how many requests a list of so many objects counts.
func Seats(objects int) int {
	return min(max(1, (objects+listSeat-1)/listSeat), listSeats)
}

// Take takes a place of a kind for a user, and waits for it if necessary. The caller calls
// release, once. Errors: 429, which it counts, and ctx's cause.
func (l *Load) Take(ctx context.Context, k Kind, user string) (release func(), err error) {
	return l.take(ctx, k, user, 1)
}

// TakeSeats is Take for a list that counts as several requests; it counts as no more than an
// eighth of them.
func (l *Load) TakeSeats(ctx context.Context, k Kind, user string, seats int) (release func(), err error) {
	return l.take(ctx, k, user, min(seats, max(1, k.places.all/8)))
}

func (l *Load) take(ctx context.Context, k Kind, user string, n int) (release func(), err error) {
	began := time.Now()
	release, err = k.places.Take(ctx, Of(ctx).share(user), n)
	l.flow.waited(k, err == nil, time.Since(began))
	if errors.Is(err, ErrFull) {
		l.refusals.Add(k.reason)
		return nil, wire.TooManyRequests("Too many requests, please try again later.", time.Second)
	}
	return release, err
}

func (l *Load) kinds() []Kind {
	return []Kind{l.Reading, l.Writing, l.Spare, l.Leases, l.Opening, l.Watches, l.Costly, l.Processors, l.bodies}
}
