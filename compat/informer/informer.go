// Package informer runs this project's own informer through the same failures as client-go's.
package informer
