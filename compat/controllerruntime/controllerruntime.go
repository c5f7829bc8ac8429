// Package controllerruntime runs a manager of controller-runtime 0.25 against the
// server, with the informers of this module under its cache. It has one noun: the
// manager under test.
package controllerruntime
