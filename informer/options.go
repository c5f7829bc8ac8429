package informer

import (
	"log/slog"
	"math/rand/v2"

	"github.com/gapless-io/gapless/informer/internal/transition"
)

// Option configures an informer.
type Option func(*options)

type options struct {
	logger   *slog.Logger
	onError  func(Incident)
	noStream bool
	record   func(Sample)
	persist  persistence
	tuning   transition.Tuning
	seed     func() uint64 // of the random numbers of each stream
}

func newOptions(opts []Option) options {
	o := options{logger: slog.New(slog.DiscardHandler), tuning: transition.Defaults(), seed: rand.Uint64}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Logger logs incidents, as warnings. Without it nothing is logged.
func Logger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.logger = l
		}
	}
}

// OnError calls f with each incident, from several goroutines at once. f must be quick,
// because the informer waits for it, and must not panic.
func OnError(f func(Incident)) Option {
	return func(o *options) { o.onError = f }
}

// NoStreamingLists always reads the state by LIST. Without it, the informer tries a
// streaming list first, and remembers if the server does not support them.
func NoStreamingLists() Option {
	return func(o *options) { o.noStream = true }
}
