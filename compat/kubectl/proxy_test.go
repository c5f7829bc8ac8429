package main

import (
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestKubectlThroughTheProxy runs scripts of testdata/script against a proxy without rules: reads,
// watches, applies and deletions are as without it.
func TestKubectlThroughTheProxy(t *testing.T) {
	gapless := server(t)
	run(t, site{gapless: gapless, kubectl: newest, scripts: []string{
		"testdata/script/configmaps.txtar", "testdata/script/custom.txtar", "testdata/script/finalizers.txtar",
		"testdata/script/shop.txtar",
	}, kubeconfig: func(t testing.TB, of string) string { return harness.StartFront(t, gapless, of) }})
}
