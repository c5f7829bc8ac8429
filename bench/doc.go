// Package bench holds the short form of the comparison with upstream's server, as a test;
// cmd/bench is the full one. Packages below internal: wire is a cheap client, load generates
// and checks the work, peer runs the servers, cases defines the measurements, growth those of
// cmd/growth, which grows what a server holds.
//
// Run it with `make bench`; bench/log/diary.md describes the method.
package bench
