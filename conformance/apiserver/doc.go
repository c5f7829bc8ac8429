// Package apiserver holds the scripts about who may do what, and about what is asked before a
// write: they are played on kube-apiserver itself, built from the module program, and on `gapless
// serve`, with a data directory and over an etcd, and what a client sees is compared, as is what the
// servers ask webhooks and write into their audit logs. It has no code but tests: the scripts below
// testdata/scripts, in the language of conformance/differential/script; the hook, a server of
// webhooks of which each server has one; a caller, who has his name as his token; and the
// deliberate differences, in testdata/differences.txt, from which a part of docs/differences.md
// is written (go test -update).
//
//	go test . -v
//	go test . -run 'TestScripts/webhooks' -v -dump
package apiserver
