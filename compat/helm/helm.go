// Package helm runs Helm 3 and Helm 4 against the server, each the real program, with charts
// of testdata/charts, and with gapless's own of deploy/charts. The program under test is built
// from its module. Both come from one module, so that the packages of Kubernetes that they share
// are compiled once.
package helm
