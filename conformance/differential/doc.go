// Package differential holds the differential suite: what a client sees of `gapless serve` is
// compared with what it sees of the reference server, step by step. It has no code but tests:
// the scripts below testdata/scripts, in the language of package script, and the deliberate
// differences, in testdata/differences.txt, from which a part of docs/differences.md is
// written (go test -update).
//
//	go test ./... -v          the short form
//	go test ./... -v -full    all of it
//	go test . -run 'TestScripts/watch' -v
package differential
