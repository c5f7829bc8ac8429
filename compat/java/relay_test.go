package java

import (
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestJavaInformerBehindARelayKeepsServerState(t *testing.T) {
	harness.ClientsBehindRelay(t, 0, harness.Client{Name: "client-java 27.0.0", Namespace: "java", Command: jvm(t, "Informing")})
}

func TestJavaClientWritesOnceBehindAnAPIServerThatSendsClientsAway(t *testing.T) {
	harness.Long(t)
	harness.WritesUnderGoAway(t, map[string]harness.Writing{"client-java 27.0.0": harness.WritingProgram(jvm(t, "Writing")...)})
}
