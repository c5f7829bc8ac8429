package gapless

import (
	"fmt"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/serve"
)

// Limits protect clients from each other (docs/attacks.md). 0 means the default.
type Limits struct {
	// Connections is the maximum number of connections; the default is 16 384, or three
	// quarters of the process's file descriptors if that is less. ConnectionsPerAddress is
	// the maximum from one client address; the default is three quarters of Connections.
	Connections           int
	ConnectionsPerAddress int
	// AnonymousConnections is the maximum number of connections without a client
	// certificate; one address may have half. At the limit the oldest is closed. The
	// default is 1 000.
	AnonymousConnections int
	// StreamsPerConnection is the maximum number of concurrent requests and watches on an
	// HTTP/2 connection; the default is 250. Clients open another connection for more.
	StreamsPerConnection int
	// ResetsPerMinute is how many requests per minute a connection may cancel, or send
	// without a certificate, before it is closed; the default is 100.
	ResetsPerMinute int
	// RequestsInFlight and MutatingRequestsInFlight are the maximum numbers of concurrent
	// reads (without watches) and writes; the defaults are kube-apiserver's, 400 and 200.
	// One user may have half of them, and less while other users need them.
	RequestsInFlight         int
	MutatingRequestsInFlight int
	// Watches is the maximum number of open watches; the default is 20 000. One user may
	// have half of them, and less while other users need them.
	Watches int
}

// Defaults of Limits.
const (
	DefaultConnections              = 16_384
	DefaultAnonymousConnections     = 1000
	DefaultStreamsPerConnection     = 250
	DefaultResetsPerMinute          = 100
	DefaultRequestsInFlight         = 400
	DefaultMutatingRequestsInFlight = 200
	DefaultWatches                  = 20_000
)

// withDefaults sets defaults.
func (l Limits) withDefaults() (Limits, error) {
	handles := serve.FileHandles()
	for _, v := range []struct {
		name   string
		value  *int
		normal int
	}{
		{"connections", &l.Connections, min(DefaultConnections, handles/4*3)},
		{"connections per address", &l.ConnectionsPerAddress, 0},
		{"anonymous connections", &l.AnonymousConnections, DefaultAnonymousConnections},
		{"streams per connection", &l.StreamsPerConnection, DefaultStreamsPerConnection},
		{"resets per minute", &l.ResetsPerMinute, DefaultResetsPerMinute},
		{"requests in flight", &l.RequestsInFlight, DefaultRequestsInFlight},
		{"mutating requests in flight", &l.MutatingRequestsInFlight, DefaultMutatingRequestsInFlight},
		{"watches", &l.Watches, DefaultWatches},
	} {
		if *v.value < 0 {
			return l, fmt.Errorf("a limit of %d %s: cannot be negative; 0 means the default", *v.value, v.name)
		}
		if *v.value == 0 {
			*v.value = v.normal
		}
	}
	if l.ConnectionsPerAddress == 0 {
		l.ConnectionsPerAddress = max(1, l.Connections/4*3)
	}
	return l, nil
}

func (l Limits) bounds() limit.Bounds {
	return limit.Bounds{
		Connections: l.Connections, ConnectionsOfAddress: l.ConnectionsPerAddress,
		Anonymous: l.AnonymousConnections, FaultsPerMinute: l.ResetsPerMinute,
	}
}

func (l Limits) requests() limit.Requests {
	return limit.Requests{Reading: l.RequestsInFlight, Writing: l.MutatingRequestsInFlight, Watches: l.Watches}
}
