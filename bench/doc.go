// Package bench holds the short form of the comparison with upstream's server, as a
// test; cmd/bench is the full one. It has one noun: the comparison, which the
// packages in internal make: wire is a cheap client, load makes and checks the work,
// peer runs the servers, cases says what is measured.
//
// Run it with `make bench`; docs/performance.md says how it is measured.
package bench
