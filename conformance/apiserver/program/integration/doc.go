// Package integration is what upstream's integration tests are compiled in, from the module cache: see
// conformance/integration, which adds their files when it runs. The packages framework and testserver have the
// declarations of upstream's test/integration/framework and cmd/kube-apiserver/app/testing, and start the built
// program instead of a kube-apiserver; package server does.
package integration
