package load

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

// retry is how long a client waits that finds no server.
const retry = 10 * time.Millisecond

// write is one writer: it writes any object, in any way.
func (l *Load) write(ctx context.Context, random *rand.Rand, c *program.Client) {
	for l.gate.enter(ctx) == nil {
		_, answer := l.attempt(ctx, c, l.choose(random))
		l.gate.leave()
		pause := between(random, l.cfg.Pause)
		if answer.Code == 0 || answer.Code >= 500 {
			pause = retry
		}
		if !wait(ctx, pause) {
			return
		}
	}
}

// choose picks what to write, from what is known of the object.
func (l *Load) choose(random *rand.Rand) record.Attempt {
	a := record.Attempt{Key: l.keys[random.IntN(len(l.keys))], Size: size(random)}
	rv, exists := l.record.Latest(a.Key)
	a.Kind = record.Create
	if n := random.IntN(100); exists && n < 97 {
		switch {
		case n < 40:
			a.Kind = record.Update
		case n < 55:
			a.Kind = record.Replace
		case n < 75:
			a.Kind = record.Patch
		case n < 82:
			a.Kind = record.Delete
		case n < 92:
			a.Kind = record.DeleteIf
		default: // a precondition of the past
			a.Kind, rv = record.Update, rv-1-random.Int64N(1000)
		}
	} else if !exists && n < 10 {
		a.Kind = record.Replace
	}
	if a.Kind == record.Replace && a.Key.Resource == widgets {
		a.Kind = record.Patch // custom resources are replaced with a resourceVersion only
	}
	if a.Kind == record.Update || a.Kind == record.DeleteIf {
		a.If = max(rv, 1)
	}
	return a
}

// size is 100 bytes to 16 kB, more often small.
func size(random *rand.Rand) int {
	switch n := random.IntN(10); {
	case n < 6:
		return 100 + random.IntN(900)
	case n < 8:
		return 1000 + random.IntN(3000)
	}
	return 4000 + random.IntN(12_001)
}
