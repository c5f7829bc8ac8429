// Package bench measures gapless as its users meet it: the program built from
// this tree, in a process of its own, over TLS, on a real disk. It has one noun:
// the server under measurement, started by the benchmarks themselves.
//
// Run it with `make bench`. Besides ns/op the benchmarks report the server's own
// CPU time per thing (read from the operating system, so the client's share is
// not in it), which is the figure that can be compared between machines.
package bench
