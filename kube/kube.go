// Package kube is the wire vocabulary of the Kubernetes API, as every room of
// gapless speaks it.
//
// It has six nouns. An [Object] is one immutable, encoded API object with the
// metadata read from it once. A [ResourceVersion] orders what happened to
// objects. A [WatchEvent] is one frame of a watch, a [Watch] the stream of them.
// [ListOptions] are what a request asked for, and [PlanList] and [PlanWatch]
// say where and how it is served. The typed errors of errors.go become a Status
// in one table ([StatusOf]) and come back from one ([Classify]).
package kube
