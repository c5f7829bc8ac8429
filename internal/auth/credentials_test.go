package auth_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/internal/auth"
)

func open(t testing.TB, dir string, hosts ...string) *auth.Credentials {
	t.Helper()
	c, err := auth.Open(dir, auth.Options{Hosts: hosts})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return c
}

// sign makes the key of service account tokens, as a start does.
func sign(t testing.TB, dir string) {
	t.Helper()
	if _, err := auth.SigningKey(dir); err != nil {
		t.Fatalf("make the signing key: %v", err)
	}
}

// files reads everything below pki by name.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatalf("list a directory: %v", err)
	}
	for _, e := range entries {
		body, err := os.ReadFile(filepath.Join(dir, "pki", e.Name()))
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		all[e.Name()] = string(body)
	}
	return all
}

func certificate(t testing.TB, text string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		t.Fatalf("no PEM in %q", text)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatalf("parse the certificate: %v", err)
	}
	return cert
}

func TestFirstStartCreatesFilesForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	c := open(t, dir, "gapless.example", "10.0.0.7")
	kubeconfig, err := c.WriteKubeconfig("https://127.0.0.1:6443")
	if err != nil {
		t.Fatalf("write the kubeconfig: %v", err)
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
	all := files(t, dir)
	if len(all) != 6 {
		t.Errorf("%d files below pki, want three pairs", len(all))
	}
	serving := certificate(t, all["serving.crt"])
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "gapless.example", "10.0.0.7"} {
		if err := serving.VerifyHostname(host); err != nil {
			t.Errorf("verify the host name: %v", err)
		}
	}
	admin := certificate(t, all["admin.crt"])
	if admin.Subject.CommonName == "" || len(admin.Subject.Organization) != 1 ||
		admin.Subject.Organization[0] != user.SystemPrivilegedGroup {
		t.Errorf("the administrator is %v", admin.Subject)
	}
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatalf("load the file: %v", err)
	}
	if !filepath.IsAbs(kubeconfig) || cfg.Clusters["gapless"].Server != "https://127.0.0.1:6443" ||
		cfg.CurrentContext != "gapless" ||
		!bytes.Equal(cfg.Clusters["gapless"].CertificateAuthorityData, c.CA()) ||
		string(cfg.AuthInfos["gapless"].ClientKeyData) != all["admin.key"] {
		t.Errorf("kubeconfig %+v", cfg)
	}
}

func TestRestartKeepsEveryCertificate(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, "a.example")
	before := files(t, dir)
	again := open(t, dir, "a.example")
	after := files(t, dir)
	for name, body := range before {
		if after[name] != body {
			t.Errorf("%s was created again", name)
		}
	}
	if !bytes.Equal(first.CA(), again.CA()) {
		t.Error("another CA")
	}
}

func TestNewHostRenewsOnlyTheServingCertificate(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	before := files(t, dir)
	open(t, dir, "b.example")
	after := files(t, dir)
	for name, body := range before {
		if changed := after[name] != body; changed != strings.HasPrefix(name, "serving") {
			t.Errorf("%s: changed %v", name, changed)
		}
	}
	if err := certificate(t, after["serving.crt"]).VerifyHostname("b.example"); err != nil {
		t.Errorf("verify the host name: %v", err)
	}
}

func TestExpiringCertificatesAreRenewedByTheSameCA(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		open(t, dir)
		before := files(t, dir)
		<-time.After(304 * 24 * time.Hour)
		open(t, dir)
		if after := files(t, dir); after["serving.crt"] != before["serving.crt"] || after["admin.crt"] != before["admin.crt"] {
			t.Error("renewed too early")
		}
		<-time.After(2 * 24 * time.Hour)
		open(t, dir)
		after := files(t, dir)
		ca := certificate(t, after["ca.crt"])
		for _, name := range []string{"serving", "admin"} {
			cert := certificate(t, after[name+".crt"])
			if after[name+".crt"] == before[name+".crt"] || after[name+".key"] == before[name+".key"] {
				t.Errorf("%s was not renewed", name)
			}
			if err := cert.CheckSignatureFrom(ca); err != nil {
				t.Errorf("check the signature: %v", err)
			}
			if left := time.Until(cert.NotAfter); left < 360*24*time.Hour {
				t.Errorf("%s lasts %v", name, left)
			}
		}
		if after["ca.crt"] != before["ca.crt"] || after["ca.key"] != before["ca.key"] {
			t.Error("the CA was created again")
		}
	})
}

func TestUnusableCAIsRefused(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		open(t, dir)
		<-time.After(21 * 365 * 24 * time.Hour)
		if _, err := auth.Open(dir, auth.Options{}); err == nil ||
			!strings.Contains(err.Error(), "expired on 2019-12-27: put the right file back, or remove ") {
			t.Errorf("expired: %v", err)
		}
	})
	// The bubble's clock began in the year 2000, before the CA that is made now.
	other := t.TempDir()
	open(t, other)
	synctest.Test(t, func(t *testing.T) {
		if _, err := auth.Open(other, auth.Options{}); err == nil || !strings.Contains(err.Error(), "set the clock, or ") {
			t.Errorf("not yet valid: %v", err)
		}
	})
	leaf := t.TempDir()
	open(t, leaf)
	for _, suffix := range []string{".crt", ".key"} {
		replace(t, leaf, "ca"+suffix, files(t, leaf)["admin"+suffix])
	}
	if _, err := auth.Open(leaf, auth.Options{}); err == nil || !strings.Contains(err.Error(), "is not a CA's") {
		t.Errorf("a leaf: %v", err)
	}
}

func replace(t testing.TB, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "pki", name), []byte(body), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}

func TestBrokenFilesAreRefusedAndNotOverwritten(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  []string
	}{
		{
			"garbage", func(t *testing.T, dir string) { replace(t, dir, "ca.crt", "garbage") },
			[]string{"ca.crt", "ca.key", "put the files back, or remove "},
		},
		{"a certificate of the CA with one damaged byte", func(t *testing.T, dir string) {
			block, _ := pem.Decode([]byte(files(t, dir)["ca.crt"]))
			at := bytes.Index(block.Bytes, []byte("gapless-ca"))
			block.Bytes[at]++
			replace(t, dir, "ca.crt", string(pem.EncodeToMemory(block)))
		}, []string{"ca.crt is damaged, or not signed by itself: ", "or remove "}},
		{
			"an empty key", func(t *testing.T, dir string) { replace(t, dir, "serving.key", "") },
			[]string{"serving.key", "put the files back, or remove "},
		},
		{
			"another key", func(t *testing.T, dir string) { replace(t, dir, "admin.key", files(t, dir)["serving.key"]) },
			[]string{"admin.crt", "private key does not match public key"},
		},
		{
			"no key", func(t *testing.T, dir string) { remove(t, dir, "ca.key") },
			[]string{"read the ca certificate: ", "ca.key", "put the file back, or remove "},
		},
		{
			"no certificate of the CA", func(t *testing.T, dir string) { remove(t, dir, "ca.crt") },
			[]string{"ca.crt is missing, and serving.crt was signed with it: ", "or remove "},
		},
		{
			"no CA", func(t *testing.T, dir string) { remove(t, dir, "ca.crt"); remove(t, dir, "ca.key") },
			[]string{"ca.crt is missing, and serving.crt was signed with it: "},
		},
		{"a directory", func(t *testing.T, dir string) {
			remove(t, dir, "admin.key")
			if err := os.Mkdir(filepath.Join(dir, "pki", "admin.key"), 0o700); err != nil {
				t.Fatalf("make a directory: %v", err)
			}
		}, []string{"read the admin certificate: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			c.spoil(t, dir)
			before := map[string]string{}
			if c.name != "a directory" {
				before = files(t, dir)
			}
			_, err := auth.Open(dir, auth.Options{})
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v\nwant %q in it", err, part)
				}
			}
			for name, body := range before {
				if now := files(t, dir); now[name] != body {
					t.Errorf("%s was overwritten", name)
				}
			}
		})
	}
}

func remove(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "pki", name)); err != nil {
		t.Fatalf("remove a file: %v", err)
	}
}

// create writes the key, then the certificate, and takes a former certificate
// away first: wherever it is cut off, the next start repairs it.
func TestInterruptedCreationIsRepeated(t *testing.T) {
	for _, cut := range [][]string{
		{"serving.crt"},
		{"admin.crt"},
		{"serving.crt", "serving.key", "admin.crt", "admin.key", "ca.crt"},
		{"admin.crt", "admin.key"},
	} {
		dir := t.TempDir()
		open(t, dir)
		for _, name := range cut {
			remove(t, dir, name)
		}
		if cut[0] == "admin.crt" { // a key that was renewed just before
			replace(t, dir, "admin.key", files(t, dir)["serving.key"])
		}
		shake(t, open(t, dir))
	}
}

func TestUnwritableDirectoryIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if _, err := auth.Open(file, auth.Options{}); err == nil ||
		!strings.Contains(err.Error(), "make the directory of the certificates: ") {
		t.Errorf("%v", err)
	}
}

// handshake lets a client and a server with c's certificates talk, and returns
// what each says of it.
func handshake(c *auth.Credentials, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	left, right := net.Pipe()
	done := make(chan error, 1)
	server := tls.Server(left, c.ServerTLS())
	go func() { // ends with the handshake
		err := server.Handshake()
		done <- errors.Join(err, left.Close())
	}()
	conn := tls.Client(right, client)
	clientErr = conn.Handshake()
	if clientErr == nil {
		if _, err := io.Copy(io.Discard, conn); err != nil {
			clientErr = err // with TLS 1.3 the client learns of it afterwards
		}
	}
	_ = right.Close()
	serverErr = <-done
	return server.ConnectionState(), serverErr, clientErr
}

// shake fails unless the administrator gets in.
func shake(t testing.TB, c *auth.Credentials) {
	t.Helper()
	cert, err := tls.X509KeyPair(c.Admin())
	if err != nil {
		t.Fatalf("read the key pair: %v", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	state, serverErr, _ := handshake(c, &tls.Config{
		RootCAs: roots, ServerName: "localhost", Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
	})
	if serverErr != nil || len(state.VerifiedChains) == 0 {
		t.Errorf("the administrator does not get in: %v", serverErr)
	}
}

func TestTLSAcceptsOnlyCertificatesOfItsCA(t *testing.T) {
	c, other := open(t, t.TempDir()), open(t, t.TempDir())
	shake(t, c)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	foreign, err := tls.X509KeyPair(other.Admin())
	if err != nil {
		t.Fatalf("read the key pair: %v", err)
	}
	base := tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}

	none := base.Clone()
	if state, err, _ := handshake(c, none); err != nil || len(state.VerifiedChains) != 0 {
		t.Errorf("no certificate: %v", err)
	}
	bad := base.Clone()
	bad.Certificates = []tls.Certificate{foreign}
	if _, err, _ := handshake(c, bad); err == nil {
		t.Error("another CA's certificate was taken")
	}
	own := base.Clone()
	forged := selfSigned(t)
	// whatever the server asks for
	own.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &forged, nil }
	if _, err, _ := handshake(c, own); err == nil {
		t.Error("a self-signed certificate was taken")
	}
	old := base.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err, _ := handshake(c, old); err == nil {
		t.Error("TLS 1.1 was taken")
	}
	h2 := base.Clone()
	h2.NextProtos = []string{"h2", "http/1.1"}
	if state, err, _ := handshake(c, h2); err != nil || state.NegotiatedProtocol != "h2" {
		t.Errorf("protocol %q: %v", state.NegotiatedProtocol, err)
	}
	wrong := base.Clone()
	wrong.ServerName = "elsewhere.example"
	if _, _, err := handshake(c, wrong); err == nil {
		t.Error("the certificate is good for a host that nobody named")
	}
}

func selfSigned(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "gapless-admin", Organization: []string{user.SystemPrivilegedGroup}},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("create a certificate: %v", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
