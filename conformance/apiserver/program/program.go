// Package program has the tools of this module: kube-apiserver of k8s.io/kubernetes, and
// k8s.io/sample-apiserver, which stands behind it. It is in a module of its own so that its hundred
// dependencies have the versions with which compat/controllers builds its programs, and are compiled
// once for both. The directory integration has what upstream's integration tests are compiled with.
package program
