// Package validation has the rules for objects of the built-in kinds; those of pods are in
// package pods.
//
// A rule for a kind ([Deployment]) returns the errors of an object, for every write, or for
// its creation ([NewJob]). An update rule ([DeploymentUpdate]) returns the errors of a change.
// The rules are a selection of upstream's (pkg/apis/*/validation), with its texts: common
// mistakes, and objects that a controller cannot handle. Package builtin lists what is not
// checked.
package validation
