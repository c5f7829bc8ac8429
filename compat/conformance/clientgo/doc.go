// Package cache stands for client-go's package of that name when its tests are compiled
// against the replacement: it has the names that they use. The test of the module's root
// adds the tests themselves.
package cache
