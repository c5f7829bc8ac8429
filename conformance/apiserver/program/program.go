// Package program has no code but the tool of this module, which is kube-apiserver of
// k8s.io/kubernetes. It is in a module of its own so that its hundred dependencies have the
// versions with which compat/controllers builds its programs, and are compiled once for both.
package program
