package revlog

import (
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// How fast history grows is measured over growthWindow, by a sample every growthEvery at most.
const (
	growthWindow = 10 * time.Minute
	growthEvery  = 10 * time.Second
)

// growth says how fast history grows. It is not safe for concurrent use.
type growth struct {
	grown   int64 // bytes of history that writes have made, ever
	samples []sample
}

type sample struct {
	at    time.Time
	grown int64
}

// note adds a sample of the present moment, unless the last one is too young, and forgets those before the window.
func (g *growth) note() {
	if n := len(g.samples); n > 0 && time.Since(g.samples[n-1].at) < growthEvery {
		return
	}
	g.samples = append(g.samples, sample{at: time.Now(), grown: g.grown})
	for len(g.samples) > 1 && time.Since(g.samples[1].at) >= growthWindow {
		g.samples = g.samples[1:]
	}
}

// until returns how long it takes until there are so many bytes of history more; false: they are not to be expected.
func (g *growth) until(bytes int64) (time.Duration, bool) {
	if bytes <= 0 {
		return 0, true
	}
	if len(g.samples) == 0 {
		return 0, false
	}
	first := g.samples[0]
	grown, took := g.grown-first.grown, time.Since(first.at)
	if grown <= 0 || took <= 0 {
		return 0, false
	}
	const longest = 10 * 365 * 24 * time.Hour // it is as good as never
	if seconds := float64(bytes) / float64(grown) * took.Seconds(); seconds < longest.Seconds() {
		return time.Duration(seconds * float64(time.Second)), true
	}
	return 0, false
}

// ExpiresAt returns when the first change of a resource after a revision will be removed, by Options.History, or by
// Options.HistoryBytes if history goes on to grow as in the last minutes; zero if there is no such change, or if neither
// will remove it. Compactions that are asked for are not foreseen. It looks at the segments, and not at the changes.
func (l *Log) ExpiresAt(resource string, revision int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.index.Resources[resource]
	if r == nil {
		return time.Time{}
	}
	after := r.After(revision)
	if len(after) == 0 {
		return time.Time{}
	}
	first := l.momentLocked(after[0])
	var at time.Time
	if l.opts.History > 0 && !first.Time.IsZero() {
		at = first.Time.Add(l.opts.History)
	}
	if full := l.fullAtLocked(after[0], first.Time); !full.IsZero() && (at.IsZero() || full.Before(at)) {
		at = full
	}
	return at
}

// fullAtLocked returns when overBudget will give up the segment that a change, made at a time, is in; zero: it is not
// foreseen.
func (l *Log) fullAtLocked(c index.Change, made time.Time) time.Time {
	if l.opts.HistoryBytes == 0 {
		return time.Time{}
	}
	history := l.historyLocked()
	for _, s := range l.listed {
		if s.last >= c.Revision {
			break
		}
		if s.last > l.compacted.Revision {
			history -= s.frees // it is given up before
		}
	}
	now := time.Now()
	var at time.Time
	if left, known := l.growth.until(l.opts.HistoryBytes - history); known {
		at = now.Add(left)
		if kept := made.Add(minHistory); kept.After(at) {
			at = kept
		}
	}
	if left, known := l.growth.until(2*l.opts.HistoryBytes - history); known { // then also what is younger
		if twice := now.Add(left); at.IsZero() || twice.Before(at) {
			at = twice
		}
	}
	return at
}
