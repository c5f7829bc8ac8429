// Package integration runs integration tests that upstream wrote for kube-apiserver, with upstream's controllers where a
// test starts some, against the built program over a real etcd. The tests are taken from the module cache when they
// run; nothing of them is kept here.
//
// A suite is a package of upstream's tests; suites.go has the list, and what is left out. All of them are compiled into
// one program, in the module of conformance/apiserver/program, whose directory integration has what starts the server
// for a test: with the flags that upstream's server would have. Each test runs in a process of its own.
//
// An expected failure is a test that needs what only upstream's own server gives it, or that sees a difference, with the
// reason: one that fails and is not listed fails the run, and so does one that is listed and passes. The list is
// testdata/failures.txt.
package integration
