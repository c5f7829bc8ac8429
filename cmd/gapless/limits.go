package main

import (
	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// limitFlags adds the flags of the limits. Flags that kube-apiserver has too have the
// same names. 0 means the default.
func limitFlags(flags *pflag.FlagSet, l *gapless.Limits) {
	flags.IntVar(&l.Connections, "max-connections", 0,
		"maximum number of connections (default 16384, or three quarters of the file descriptors if that is less)")
	flags.IntVar(&l.ConnectionsPerAddress, "max-connections-per-address", 0,
		"maximum number of connections from one client address (default three quarters of --max-connections)")
	flags.IntVar(&l.AnonymousConnections, "max-anonymous-connections", gapless.DefaultAnonymousConnections,
		"maximum number of connections without a client certificate; one address may have half; the oldest are closed")
	flags.IntVar(&l.StreamsPerConnection, "http2-max-streams-per-connection", gapless.DefaultStreamsPerConnection,
		"maximum number of concurrent requests and watches on an HTTP/2 connection")
	flags.IntVar(&l.ResetsPerMinute, "max-resets-per-minute", gapless.DefaultResetsPerMinute,
		"requests per minute that a connection may cancel, or send without a certificate, before it is closed")
	flags.IntVar(&l.RequestsInFlight, "max-requests-inflight", gapless.DefaultRequestsInFlight,
		"maximum number of concurrent reads; one user may have half")
	flags.IntVar(&l.MutatingRequestsInFlight, "max-mutating-requests-inflight", gapless.DefaultMutatingRequestsInFlight,
		"maximum number of concurrent writes; one user may have half")
	flags.IntVar(&l.Watches, "max-watches", gapless.DefaultWatches, "maximum number of open watches; one user may have half")
}
