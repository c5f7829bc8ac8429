// Package suites runs suites that operators' authors wrote for package envtest, unchanged, and
// compares two control planes by them: gapless as `gapless envtest install` installs it, and
// kube-apiserver and etcd, built from their modules. The operators' modules are taken from the
// module proxy when the tests run; this module does not require them.
//
// A suite is the test program of one package of an operator. A side is one of the two control
// planes. An outcome is what a suite did on a side: which tests passed, how long it took, and
// the processor time of the side's processes. A listed failure is a test that is known to fail
// on a side, with the reason (testdata/failures): one that fails and is not listed fails the
// run, and so does one that is listed and passes.
//
// Without flags one operator's cheapest suites run on gapless. With -all, all suites run on both
// sides, one after the other; -update then writes testdata/measured.json and the tables of
// docs/envtest.md; -only selects suites, -side one side.
package suites
