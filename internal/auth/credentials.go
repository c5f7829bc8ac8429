package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/yaml"
)

// Credentials are the certificates of one data directory.
type Credentials struct {
	dir     string
	ca      pair
	serving pair
	admin   pair
}

// Open reads the credentials below dir, in dir/pki, or makes them. hosts are the
// names and addresses that clients will use besides localhost and the loopback
// addresses. A leaf certificate that is about to expire, or is not good for
// hosts, is made anew; the CA never is, so kubeconfigs stay good. A file that
// cannot be read is an error that says what to do, never overwritten.
func Open(dir string, hosts ...string) (*Credentials, error) {
	c := &Credentials{dir: dir}
	if err := os.MkdirAll(c.pki(), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the certificates: %w", err)
	}
	all := append([]string{"localhost", "127.0.0.1", "::1"}, hosts...)
	slices.Sort(all)
	all = slices.Compact(all)
	now := time.Now()
	if err := c.load("ca", &c.ca); err != nil {
		return nil, err
	}
	if err := c.checkCA(now); err != nil {
		return nil, err
	}
	if c.ca.cert == nil {
		if err := c.create("ca", &c.ca, func() (pair, error) { return newCA(now) }); err != nil {
			return nil, err
		}
	}
	if err := c.leaf("serving", &c.serving, all, func() (pair, error) { return newServing(&c.ca, all, now) }); err != nil {
		return nil, err
	}
	if err := c.leaf("admin", &c.admin, nil, func() (pair, error) { return newAdmin(&c.ca, now) }); err != nil {
		return nil, err
	}
	return c, nil
}

// checkCA refuses a CA that could not do its work. A missing one is refused too
// when there are certificates of it: making another would lock out whoever has a
// kubeconfig.
func (c *Credentials) checkCA(now time.Time) error {
	const remedy = "put the right file back, or remove %s to have all certificates made anew (clients then need the new kubeconfig)"
	file := filepath.Join(c.pki(), "ca.crt")
	switch ca := c.ca.cert; {
	case ca == nil:
		for _, name := range []string{"serving.crt", "admin.crt"} {
			if _, err := os.Stat(filepath.Join(c.pki(), name)); err == nil {
				return fmt.Errorf("%s is missing, and %s was signed with it: "+remedy, file, name, c.pki())
			}
		}
	case !ca.IsCA || !ca.BasicConstraintsValid:
		return fmt.Errorf("the certificate in %s is not a CA's: "+remedy, file, c.pki())
	case now.After(ca.NotAfter):
		return fmt.Errorf("the CA's certificate in %s expired on %s: "+remedy, file, ca.NotAfter.Format(time.DateOnly), c.pki())
	case now.Before(ca.NotBefore):
		return fmt.Errorf("the CA's certificate in %s is not valid before %s: set the clock, or "+remedy, file, ca.NotBefore.Format(time.DateTime), c.pki())
	}
	return nil
}

func (c *Credentials) pki() string { return filepath.Join(c.dir, "pki") }

// leaf loads a certificate and makes it if it is missing or not usable.
func (c *Credentials) leaf(name string, into *pair, hosts []string, issue func() (pair, error)) error {
	if err := c.load(name, into); err != nil {
		return err
	}
	if into.cert != nil && into.usable(&c.ca, hosts, time.Now()) {
		return nil
	}
	return c.create(name, into, issue)
}

// load reads a pair; it leaves into alone when neither file exists.
func (c *Credentials) load(name string, into *pair) error {
	certFile, keyFile := filepath.Join(c.pki(), name+".crt"), filepath.Join(c.pki(), name+".key")
	certPEM, certErr := os.ReadFile(certFile)
	keyPEM, keyErr := os.ReadFile(keyFile)
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		return nil
	}
	// create writes the key first: a key without a certificate is a creation that
	// was cut off, and nobody has seen the certificate.
	if errors.Is(certErr, fs.ErrNotExist) && keyErr == nil {
		return nil
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return fmt.Errorf("read the %s certificate: %w; put the file back, or remove %s to have all certificates made anew (clients then need the new kubeconfig)", name, err, c.pki())
	}
	p, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("%s and %s do not hold a certificate and its key: %w; put the files back, or remove %s to have all certificates made anew (clients then need the new kubeconfig)", certFile, keyFile, err, c.pki())
	}
	*into = p
	return nil
}

func (c *Credentials) create(name string, into *pair, issue func() (pair, error)) error {
	p, err := issue()
	if err != nil {
		return fmt.Errorf("make the %s certificate: %w", name, err)
	}
	// Until all is written there is no certificate: a key of one and a certificate
	// of another would stop the next start.
	if err := os.Remove(filepath.Join(c.pki(), name+".crt")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the %s certificate: %w", name, err)
	}
	for _, f := range []struct {
		suffix string
		body   []byte
	}{{".key", p.keyPEM}, {".crt", p.certPEM}} {
		if err := writeFile(filepath.Join(c.pki(), name+f.suffix), f.body); err != nil {
			return fmt.Errorf("keep the %s certificate: %w", name, err)
		}
	}
	*into = p
	return nil
}

// writeFile replaces a file at once, readable by its owner only.
func writeFile(path string, body []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(body)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// ServerTLS returns the TLS configuration of the server: HTTP/2 and HTTP/1.1, TLS
// 1.2 or newer, client certificates verified against our CA when they are sent.
func (c *Credentials) ServerTLS() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.cert)
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{c.serving.tls()},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    roots,
		NextProtos:   []string{"h2", "http/1.1"},
	}
}

// CA returns the CA's certificate as PEM.
func (c *Credentials) CA() []byte { return slices.Clone(c.ca.certPEM) }

// Admin returns the administrator's certificate and key as PEM.
func (c *Credentials) Admin() (cert, key []byte) {
	return slices.Clone(c.admin.certPEM), slices.Clone(c.admin.keyPEM)
}

// WriteKubeconfig writes dir/kubeconfig for a server at url, with the
// administrator's certificate inside, and returns its absolute path.
func (c *Credentials) WriteKubeconfig(url string) (string, error) {
	named := func(key string, value map[string]any) []map[string]any {
		return []map[string]any{{"name": "gapless", key: value}}
	}
	body, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "gapless",
		"clusters": named("cluster", map[string]any{"server": url, "certificate-authority-data": c.ca.certPEM}),
		"users":    named("user", map[string]any{"client-certificate-data": c.admin.certPEM, "client-key-data": c.admin.keyPEM}),
		"contexts": named("context", map[string]any{"cluster": "gapless", "user": "gapless", "namespace": "default"}),
	})
	if err != nil {
		return "", fmt.Errorf("encode kubeconfig: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w", err)
	}
	if err := writeFile(path, body); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}
