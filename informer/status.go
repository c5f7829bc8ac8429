package informer

import (
	"log/slog"
	"maps"
	"time"

	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/transition"
)

// Status describes an informer. Counters are since New. For an informer of several
// namespaces, State is that of a namespace that is not being watched, if there is one,
// LastContact is the oldest, and the counters are sums.
type Status struct {
	Name        string
	State       string // "idle", "listing", "streaming", "watching", "waiting", "stopped"
	RV          string // as ResourceVersion
	Objects     int
	Undecodable int       // objects whose newest state could not be decoded
	LastContact time.Time // when the server last sent something; zero: never

	Lists   int64 // requests for the whole state, as LIST or as streaming list
	Streams int64 // of them: streaming lists
	Watches int64 // watches that were opened from a resourceVersion
	Gone    int64 // 410, and watches that ended as if for a 410: Gone and SilentGone
	// Incidents counts incidents by kind. Last is the latest; nil: there was none.
	Incidents map[IncidentKind]int64
	Last      *Incident
}

// Status returns how the informer is now. The result belongs to the caller.
func (i *Informer[T]) Status() Status {
	now, streams := i.cache.Current(), i.cache.Status()
	i.statusMu.Lock()
	defer i.statusMu.Unlock()
	s := i.status
	s.State, s.LastContact, s.Undecodable = streams.State.String(), streams.LastContact, streams.Undecodable
	s.Lists, s.Streams, s.Watches = streams.Lists, streams.Streams, streams.Watches
	s.RV, s.Objects = now.RV, now.Tree.Len()
	s.Incidents = maps.Clone(s.Incidents)
	s.Gone = s.Incidents[Gone] + s.Incidents[SilentGone]
	if s.Last != nil {
		last := *s.Last
		s.Last = &last
	}
	return s
}

// doing says what the informer is doing and what went wrong last, for errors.
func (i *Informer[T]) doing() string {
	s := i.Status()
	switch {
	case s.Last != nil:
		return s.State + ", last incident: " + s.Last.String()
	case s.State == transition.Idle.String():
		return s.State + ", Run was not called"
	}
	return s.State + ", without incident so far"
}

// report counts, logs and passes on an incident.
func (i *Informer[T]) report(of incident.Incident) {
	in := newIncident(of)
	i.statusMu.Lock()
	i.status.Incidents[in.Kind]++
	i.status.Last = &in
	i.statusMu.Unlock()
	i.record(MetricIncidents, 1, in.Kind.String())
	i.opts.logger.Warn("informer incident", append([]any{slog.String("informer", i.source.name)}, in.plain().Attrs()...)...)
	if i.opts.onError != nil {
		i.opts.onError(in)
	}
}
