// Package limit keeps one client from exhausting the server.
//
// A [Listener] bounds connections, above all those without a client
// certificate. A [Conn] is one of them: it is throttled when it sends more than its
// requests account for, and closed when it misbehaves. [Places] bound the requests, or the
// bytes, that are under way, and share them fairly among users.
//
// Refusals are counted by [Reason].
package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Reason says why something was refused or slowed down: the label of
// gapless_refused_total.
type Reason string

// The reasons. A connection is closed, a request is answered with an error.
const (
	// Connections: there are too many, or too many from one address, or too many
	// that have shown no certificate, of which the oldest is closed.
	Connections          Reason = "connections"
	AddressConnections   Reason = "address_connections"
	AnonymousConnections Reason = "anonymous_connections"
	// Throttled: a connection sends more than its requests account for, and is read slowly
	// from then on.
	Throttled Reason = "throttled"
	// Resets: a connection has canceled too many requests; Anonymous: it has sent too many
	// without a certificate. It is closed.
	Resets    Reason = "resets"
	Anonymous Reason = "anonymous_requests"
	// InFlight: a user, or all together, have too many requests under way; Bodies: too
	// many bytes of bodies; Watches: too many watches.
	InFlight Reason = "in_flight"
	Bodies   Reason = "bodies"
	Watches  Reason = "watches"
	// Processor: an expensive request waited too long for a processor.
	Processor Reason = "processor"
	// Depth: a body is nested too deep.
	Depth Reason = "depth"
	// SlowBody: a body arrived too slowly.
	SlowBody Reason = "slow_body"
)

func reasons() []Reason {
	return []Reason{
		Connections, AddressConnections, AnonymousConnections, Throttled, Resets, Anonymous, InFlight, Bodies, Watches, Processor,
		Depth, SlowBody,
	}
}

// Refusals counts refusals by reason. It is a prometheus.Collector.
type Refusals struct{ total *prometheus.CounterVec }

// NewRefusals returns counters that are at zero.
func NewRefusals() *Refusals {
	r := &Refusals{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gapless_refused_total", Help: "What was refused or slowed down to protect other clients, by reason.",
	}, []string{"reason"})}
	for _, reason := range reasons() {
		r.total.WithLabelValues(string(reason)) // so that the series exists before the first refusal
	}
	return r
}

// Add counts a refusal.
func (r *Refusals) Add(reason Reason) { r.total.WithLabelValues(string(reason)).Inc() }

// Counts returns how many there were, by the reason; reasons without any are left out.
func (r *Refusals) Counts() map[string]int64 {
	all := map[string]int64{}
	for _, reason := range reasons() {
		var m dto.Metric
		if err := r.total.WithLabelValues(string(reason)).Write(&m); err == nil && m.GetCounter().GetValue() > 0 {
			all[string(reason)] = int64(m.GetCounter().GetValue())
		}
	}
	return all
}

// Describe implements prometheus.Collector.
func (r *Refusals) Describe(out chan<- *prometheus.Desc) { r.total.Describe(out) }

// Collect implements prometheus.Collector.
func (r *Refusals) Collect(out chan<- prometheus.Metric) { r.total.Collect(out) }
