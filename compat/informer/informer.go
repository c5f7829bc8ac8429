// Package informer runs this project's own informer through the same failures as
// client-go's. It has one noun: the informer under test.
package informer
