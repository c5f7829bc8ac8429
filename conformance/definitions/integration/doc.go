// Package integration is where upstream's tests of custom resources are compiled; its files
// are added when the tests run.
package integration
