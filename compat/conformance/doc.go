// Package conformance runs suites that others wrote for their own code: client-go's tests
// of informers over the replacement for them, and suites of controller-runtime over the
// built program and over the replacement. They are taken from the module cache when the
// tests run; nothing of them is kept here. Where a suite starts
// kube-apiserver and etcd itself, these are gapless, installed by `gapless envtest install`.
//
// A picked test is one of client-go's that makes an informer; the directory clientgo has what
// it is compiled against. A spec is a test of a ginkgo suite, read from the suite's report. A
// listed failure is a test that is known to fail, with the reason: one that fails and is not
// listed fails the run, and so does one that is listed and passes. The lists are in
// MIGRATING-from-client-go.md and in testdata/failures.
package conformance
