package python

import (
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestPythonClientBehindARelayListsOnce(t *testing.T) {
	harness.ClientsBehindRelay(t, 1, harness.Client{
		Name: "python " + release, Namespace: "python", Command: []string{client(t), "watching.py"},
	})
}

func TestPythonClientWritesOnceBehindAnAPIServerThatSendsClientsAway(t *testing.T) {
	harness.Long(t)
	harness.WritesUnderGoAway(t, map[string]harness.Writing{"python " + release: harness.WritingProgram(client(t), "writing.py")})
}
