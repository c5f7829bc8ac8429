package node

import (
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestJavaScriptInformerBehindARelayKeepsServerState(t *testing.T) {
	harness.ClientsBehindRelay(t, 0, harness.Client{
		Name: "client-node " + release, Namespace: "node", Command: program(t, "watching.mjs"),
	})
}

func TestJavaScriptClientWritesOnceBehindAnAPIServerThatSendsClientsAway(t *testing.T) {
	harness.Long(t)
	harness.WritesUnderGoAway(t, map[string]harness.Writing{
		"client-node " + release: harness.WritingProgram(program(t, "writing.mjs")...),
	})
}
