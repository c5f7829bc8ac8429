// Package conversion is where upstream's tests of conversion webhooks are compiled; its files
// are added when the tests run.
package conversion
