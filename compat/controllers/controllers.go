// Package controllers runs upstream's kube-controller-manager and kube-scheduler, and kwok, which
// plays the kubelets, unmodified on the built program: Deployments roll out, Jobs complete.
// The three are tools of this module, so "go install tool" builds them.
//
// A cluster is the server and the three programs. A claim is what kubectl sees happen in it. A
// listed error is a line that one of the programs logs as an error though nothing is wrong,
// with the reason: an error that is not listed fails the run, and so does one that is listed
// and never logged. The list is testdata/errors.txt.
package controllers
