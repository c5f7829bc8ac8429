// Package suites is one test of upstream's tests of all packages, which are added with their calls when it runs: one
// program is linked.
package suites
