// Package informer runs this project's own informer through the same weather as
// client-go's beside it. It has one noun: the informer under test.
package informer
