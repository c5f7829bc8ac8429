package harness

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Identity is the administrator's, as the server's kubeconfig has it: PEM.
type Identity struct{ CA, Cert, Key []byte }

// Administrator reads the server's kubeconfig.
func Administrator(t testing.TB, s *Server) *Identity {
	t.Helper()
	text, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) []byte {
		found := regexp.MustCompile(`"?` + name + `"?: *"?([A-Za-z0-9+/=]+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in the kubeconfig", name)
		}
		raw, err := base64.StdEncoding.DecodeString(string(found[1]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return raw
	}
	return &Identity{
		CA: field("certificate-authority-data"), Cert: field("client-certificate-data"), Key: field("client-key-data"),
	}
}

// WriteKubeconfig writes a kubeconfig with one context, for the server at a URL, and
// returns its path.
func (id *Identity) WriteKubeconfig(t testing.TB, url string) string {
	t.Helper()
	encode := base64.StdEncoding.EncodeToString
	var text bytes.Buffer
	for _, part := range []string{
		"apiVersion: v1\nkind: Config\ncurrent-context: gapless\n",
		"clusters:\n- name: gapless\n  cluster: {server: '", url, "', certificate-authority-data: '", encode(id.CA), "'}\n",
		"users:\n- name: gapless\n  user: {client-certificate-data: '", encode(id.Cert), "', client-key-data: '", encode(id.Key),
		"'}\n",
		"contexts:\n- name: gapless\n  context: {cluster: gapless, user: gapless, namespace: default}\n",
	} {
		text.WriteString(part)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteFiles writes CA, certificate and key, and returns the paths of the three.
func (id *Identity) WriteFiles(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for _, part := range []struct {
		name    string
		content []byte
	}{{"ca.crt", id.CA}, {"client.crt", id.Cert}, {"client.key", id.Key}} {
		path := filepath.Join(dir, part.name)
		if err := os.WriteFile(path, part.content, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// Client returns an HTTP client of the administrator.
func (id *Identity) Client(t testing.TB) *http.Client {
	t.Helper()
	pair, err := tls.X509KeyPair(id.Cert, id.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(id.CA)
	tr := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
