package kube

import "iter"

// List is the answer to a LIST: a consistent selection of objects at one
// resource version.
type List struct {
	ResourceVersion ResourceVersion
	Continue        string // token for the next page, "" at the end
	// Remaining is the number of items after this page; nil when unknown (a
	// selector was given) or when nothing remains.
	Remaining *int64
	// Items yields the objects in key order. It may be ranged over more than once
	// and holds no lock.
	Items iter.Seq[*Object]
}
