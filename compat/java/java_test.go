package java

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// jvm compiles the programs and returns the command that runs one.
func jvm(t *testing.T, main string) []string {
	t.Helper()
	harness.Tools(t, "java", "javac", "mvn")
	dir := t.TempDir()
	harness.Must(t, ".", nil, "mvn", "-B", "-q", "-ntp", "-Dbuild="+dir, "-DoutputDirectory="+filepath.Join(dir, "lib"),
		"compile", "dependency:copy-dependencies")
	return []string{
		"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(dir, "classes") + ":" + filepath.Join(dir, "lib", "*"), main,
	}
}

func TestJavaInformerKeepsServerStateUnderFailures(t *testing.T) {
	harness.ClientsUnderFailures(t, 0, harness.Client{
		Name: "client-java 27.0.0", Namespace: "java", Command: jvm(t, "Informing"),
	})
}

func TestOkHttpReadsCompressedStreamingLists(t *testing.T) {
	command := jvm(t, "Streaming")
	s := harness.Start(t)
	admin := harness.Administrator(t, s)
	const objects = 40
	harness.Fill(t, admin.Client(t), s.URL+"/api/v1/namespaces/default/configmaps", objects)
	args := append(command[1:], admin.WriteKubeconfig(t, s.URL), "default")
	out, err := exec.CommandContext(t.Context(), command[0], args...).CombinedOutput()
	if want := fmt.Sprintf("ENCODING gzip\nEND %d\n", objects); err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
