// Package wire has the types of the Kubernetes API on the wire, as servers need them:
// objects, list options, plans of reads, continue tokens, frames of watches and the table
// of errors.
//
// An [Object] is one immutable, encoded API object with the metadata read from it once. A
// [WatchEvent] is one event of a watch, a [Watch] is the stream of them. [ListOptions] are
// the options of a request; [PlanList] and [PlanWatch] decide how it is served. A
// [StatusError] is an error with a Status, and [StatusOf] converts any error to the Status
// for a client. What clients need too is in package kube.
//
// status.go and statusof.go have the one table from typed errors to Status, that is why a
// request got its status and text; parse.go and plan.go how resourceVersion,
// resourceVersionMatch, limit and continue are read and combined; continue.go the form of a
// continue token.
package wire
