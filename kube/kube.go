// Package kube has the types of the Kubernetes API on the wire: objects, resource
// versions, list options, watch events and errors. Every package of gapless uses them.
//
// It has six nouns. An [Object] is one immutable, encoded API object with the
// metadata read from it once. A [ResourceVersion] orders the changes of
// objects. A [WatchEvent] is one event of a watch, a [Watch] is the stream of them.
// [ListOptions] are the options of a request; [PlanList] and [PlanWatch] decide how it is
// served. A [StatusError] is an error with a Status: [StatusOf] converts any error to a
// Status for the client, and [Classify] tells a client what an error means.
//
// status.go and statusof.go have the one table from typed errors to Status, that is why a
// request got its status and text; expired.go the causes of a 410; parse.go and plan.go how
// resourceVersion, resourceVersionMatch, limit and continue are read and combined; continue.go
// the form of a continue token; shard.go shards.
package kube
