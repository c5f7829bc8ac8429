package java

import (
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestJavaInformerBehindARelayKeepsServerState(t *testing.T) {
	harness.ClientsBehindRelay(t, 0, harness.Client{Name: "client-java 27.0.0", Namespace: "java", Command: jvm(t, "Informing")})
}
