package limit

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/gapless-io/gapless/kube"
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
	// spareRequests are reserved for /metrics, which must be served under full load.
	spareRequests = 8
	// bodyBytes bounds the bodies of requests that are under way.
	bodyBytes = 128 << 20
	// processorWithin is how long a request waits for a processor: the time of a few of the most
	// expensive requests.
	processorWithin = 15 * time.Second
	// queued is how many requests of a user wait for a place, and queuedForProcessor for a
	// processor: each holds its body.
	queued             = 10_000
	queuedForProcessor = 32
)

// Kind is one kind of load, with its places.
type Kind struct {
	reason Reason
	places *Places
}

// Load is the requests that are under way, by kind.
type Load struct {
	Reading, Writing Kind
	Spare            Kind // for /metrics, which must be served under full load
	Opening          Kind // watches that are not open yet
	Watches          Kind
	// Processors are for requests that need a processor for long: half of them.
	Processors Kind

	bodies   Kind
	refusals *Refusals
}

// NewLoad returns a load without requests.
func NewLoad(r Requests, refusals *Refusals) *Load {
	reading, wait := cmp.Or(r.Reading, 400), cmp.Or(r.Wait, 5*time.Second)
	return &Load{
		Reading:    Kind{InFlight, NewPlaces(reading, wait, queued)},
		Writing:    Kind{InFlight, NewPlaces(cmp.Or(r.Writing, 200), wait, queued)},
		Spare:      Kind{InFlight, NewPlaces(spareRequests, wait, spareRequests)},
		Opening:    Kind{InFlight, NewPlaces(reading, wait, queued)},
		Watches:    Kind{Watches, NewPlaces(cmp.Or(r.Watches, 20_000), 0, 0)},
		Processors: Kind{Processor, NewPlaces(max(1, runtime.GOMAXPROCS(0)/2), processorWithin, queuedForProcessor)},
		bodies:     Kind{Bodies, NewPlaces(bodyBytes, wait, queued)},
		refusals:   refusals,
	}
}

// Take takes a place of a kind for a user, and waits for it if necessary. The caller calls
// release, once. Errors: 429, which it counts, and ctx's cause.
func (l *Load) Take(ctx context.Context, k Kind, user string) (release func(), err error) {
	return l.take(ctx, k, user, 1)
}

func (l *Load) take(ctx context.Context, k Kind, user string, n int) (release func(), err error) {
	release, err = k.places.Take(ctx, user, n)
	if errors.Is(err, ErrFull) {
		l.refusals.Add(k.reason)
		return nil, kube.TooManyRequests("Too many requests, please try again later.", time.Second)
	}
	return release, err
}
