package fabric8

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// build compiles the program of a folder and returns its class path.
func build(t *testing.T, folder string) string {
	t.Helper()
	harness.Tools(t, "java", "javac", "mvn")
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "mvn", "-B", "-q", "-ntp", "-Dbuild="+dir,
		"-DoutputDirectory="+filepath.Join(dir, "lib"),
		"compile", "dependency:copy-dependencies")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, out)
	}
	return filepath.Join(dir, "classes") + ":" + filepath.Join(dir, "lib", "*")
}

// identity is the administrator's, in the forms that fabric8 reads.
type identity struct {
	*harness.Identity

	files      []string // CA, certificate and key
	kubeconfig string
}

func administrator(t *testing.T, s *harness.Server) *identity {
	t.Helper()
	id := &identity{Identity: harness.Administrator(t, s)}
	id.Key = sec1(t, id.Key)
	id.files = id.WriteFiles(t)
	id.kubeconfig = id.WriteKubeconfig(t, s.URL)
	return id
}

// sec1 is a key in the form that fabric8 can read: PKCS #8 it takes for RSA, from 4.2
// to 7.8.
func sec1(t *testing.T, key []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(key)
	if block == nil {
		t.Fatal("the key is no PEM")
	}
	if block.Type != "PRIVATE KEY" {
		return key
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatalf("parse pkcs8private key: %v", err)
	}
	der, err := x509.MarshalECPrivateKey(private.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatalf("marshal EC private key: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// java returns the command that runs a main class.
func java(classPath, main string) []string {
	return []string{
		"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classPath, main,
	}
}

// start runs a main class until the test ends.
func start(t *testing.T, classPath, main string, args []string, watches map[string]*harness.Watching) *harness.Foreign {
	t.Helper()
	command := java(classPath, main)
	return harness.StartForeign(t, exec.CommandContext(t.Context(), command[0], append(command[1:], args...)...), watches)
}
