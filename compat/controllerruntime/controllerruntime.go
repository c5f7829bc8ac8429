// Package controllerruntime runs managers of controller-runtime 0.25 against the server. It
// has the manager under test, with the informers of this module under its cache, and the
// operator of shops, a custom resource with two versions and webhooks.
package controllerruntime
