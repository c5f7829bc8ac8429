// Package definitions runs the integration tests that upstream wrote for its server of custom
// resources, apiextensions-apiserver, against the built program. The tests are taken from the
// module cache when they run; nothing of them is kept here.
//
// A suite is one of upstream's two packages of tests; the directory integration is what its
// files are compiled in. A fixture is what starts the server for a test: the packages fixtures
// and storage have upstream's declarations, and start the program. An expected failure is a
// test that needs what only upstream's own server gives it, or that sees a difference, with
// the reason: one that fails and is not listed fails the run, and so does one that is listed
// and passes. The list is testdata/failures.txt.
package definitions
