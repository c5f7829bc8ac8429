package informer

import (
	"log/slog"
	"math/rand/v2"

	"github.com/gapless-io/gapless/informer/internal/course"
)

// Option configures an informer.
type Option func(*options)

type options struct {
	logger   *slog.Logger
	onError  func(Incident)
	noStream bool
	record   func(Sample)
	persist  persistence
	tuning   course.Tuning
	seed     func() uint64 // of what each reflector leaves to chance
}

func newOptions(opts []Option) options {
	o := options{logger: slog.New(slog.DiscardHandler), tuning: course.Defaults(), seed: rand.Uint64}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Logger is where incidents are logged, as warnings. Without it nothing is.
func Logger(l *slog.Logger) Option {
	return func(o *options) {
		if l != nil {
			o.logger = l
		}
	}
}

// OnError is called for each incident, from the informer's goroutines, several at
// once. It must be quick, because the informer waits for it, and must not panic.
func OnError(f func(Incident)) Option {
	return func(o *options) { o.onError = f }
}

// NoStreamingLists reads the state by LIST from the beginning. Without it,
// streaming lists are tried first, and the informer remembers if the server does
// not know them.
func NoStreamingLists() Option {
	return func(o *options) { o.noStream = true }
}
