package auth

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/durable"
)

// Credentials are the certificates of one data directory.
type Credentials struct {
	dir     string
	ca      pair
	serving pair
	admin   pair

	hosts   []string
	files   Files
	current atomic.Pointer[serving] // what handshakes use
}

// Options configure credentials. The zero value is the default.
type Options struct {
	// Hosts are the names and addresses that clients will use besides localhost and
	// the loopback addresses.
	Hosts []string
	// ClientKey is the algorithm of the administrator's key. "" keeps an existing key, and
	// is ECDSA for a new one.
	ClientKey KeyAlgorithm
	// Files are maintained by somebody else.
	Files Files
}

// Open reads the credentials in dir/pki, or creates them. It renews a leaf certificate
// that expires soon, does not cover the hosts, or has a key of another algorithm than
// configured. It never renews the CA, so that kubeconfigs stay valid. For a file that it
// cannot read it returns an error that says what to do, and does not overwrite the file.
func Open(dir string, o Options) (*Credentials, error) {
	c := &Credentials{dir: dir, files: o.Files}
	if err := durable.MkdirAll(c.pki()); err != nil {
		return nil, fmt.Errorf("make the directory of the certificates: %w", err)
	}
	all := append([]string{"localhost", "127.0.0.1", "::1"}, o.Hosts...)
	slices.Sort(all)
	all = slices.Compact(all)
	c.hosts = all
	now := time.Now()
	if err := c.read(now); err != nil {
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
	algorithm := cmp.Or(o.ClientKey, c.admin.algorithm(), ECDSA)
	if o.ClientKey != "" && c.admin.algorithm() != o.ClientKey {
		c.admin = pair{} // copies of its certificate stay valid
	}
	if err := c.leaf("admin", &c.admin, nil, func() (pair, error) { return newAdmin(algorithm, &c.ca, now) }); err != nil {
		return nil, err
	}
	if _, err := c.Reload(now); err != nil {
		return nil, err
	}
	return c, nil
}

// Check returns the error that Open would return for the files below dir. It writes
// nothing.
func Check(dir string) error {
	c := &Credentials{dir: dir}
	return c.read(time.Now())
}

// read loads the existing pairs; the others stay empty.
func (c *Credentials) read(now time.Time) error {
	if err := c.load("ca", &c.ca); err != nil {
		return err
	}
	if err := c.checkCA(now); err != nil {
		return err
	}
	return errors.Join(c.load("serving", &c.serving), c.load("admin", &c.admin))
}

// checkCA refuses an unusable CA. It also refuses a missing one when certificates of it
// exist: with another CA, existing kubeconfigs would not work any more.
func (c *Credentials) checkCA(now time.Time) error {
	const remedy = "put the right file back, or remove %s to recreate all certificates (clients then need the new kubeconfig)"
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
	case ca.CheckSignatureFrom(ca) != nil: // otherwise only clients notice the damage, and refuse the server
		return fmt.Errorf("the certificate in %s is damaged, or not signed by itself: "+remedy, file, c.pki())
	case now.After(ca.NotAfter):
		return fmt.Errorf("the CA's certificate in %s expired on %s: "+remedy, file, ca.NotAfter.Format(time.DateOnly), c.pki())
	case now.Before(ca.NotBefore):
		return fmt.Errorf("the CA's certificate in %s is not valid before %s: set the clock, or "+remedy, file,
			ca.NotBefore.Format(time.DateTime), c.pki())
	}
	return nil
}

func (c *Credentials) pki() string { return filepath.Join(c.dir, "pki") }

// leaf makes a certificate if it is missing or not usable.
func (c *Credentials) leaf(name string, into *pair, hosts []string, issue func() (pair, error)) error {
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
	// create writes the key first: a key without a certificate is an interrupted creation,
	// whose certificate was never used.
	if errors.Is(certErr, fs.ErrNotExist) && keyErr == nil {
		return nil
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return fmt.Errorf(
			"read the %s certificate: %w; put the file back, or remove %s to recreate all certificates (clients then need "+
				"the new kubeconfig)", name, err, c.pki())
	}
	p, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf(
			"%s and %s do not hold a certificate and its key: %w; put the files back, or remove %s to recreate all "+
				"certificates (clients then need the new kubeconfig)", certFile, keyFile, err, c.pki())
	}
	*into = p
	return nil
}

func (c *Credentials) create(name string, into *pair, issue func() (pair, error)) error {
	p, err := issue()
	if err != nil {
		return fmt.Errorf("make the %s certificate: %w", name, err)
	}
	// The certificate is removed until all is written: a key and a certificate that do not
	// match would stop the next start.
	if err := os.Remove(filepath.Join(c.pki(), name+".crt")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the %s certificate: %w", name, err)
	}
	for _, f := range []struct {
		suffix string
		body   []byte
	}{{".key", p.keyPEM}, {".crt", p.certPEM}} {
		if err := durable.WriteFile(filepath.Join(c.pki(), name+f.suffix), f.body); err != nil {
			return fmt.Errorf("keep the %s certificate: %w", name, err)
		}
	}
	*into = p
	return nil
}

// CA returns the CA's certificate as PEM, and those of Files.Cert: what clients need to know the
// server.
func (c *Credentials) CA() []byte {
	if served := c.current.Load(); served != nil {
		return slices.Concat(c.ca.certPEM, served.extra)
	}
	return slices.Clone(c.ca.certPEM) // Inspect serves nothing
}

// Admin returns the administrator's certificate and key as PEM.
func (c *Credentials) Admin() (cert, key []byte) {
	return slices.Clone(c.admin.certPEM), slices.Clone(c.admin.keyPEM)
}

// AdminConnection returns what a connection says of itself that has shown the administrator's certificate.
func (c *Credentials) AdminConnection() (*tls.ConnectionState, error) {
	var chain []*x509.Certificate
	for _, text := range [][]byte{c.admin.certPEM, c.CA()} {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, errors.New("the administrator's certificate is not PEM")
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		chain = append(chain, parsed)
	}
	return &tls.ConnectionState{
		HandshakeComplete: true, PeerCertificates: chain[:1], VerifiedChains: [][]*x509.Certificate{chain},
	}, nil
}

// Issue returns a new client certificate and its key as PEM, for a user in some groups. It is
// valid as long as the administrator's.
func (c *Credentials) Issue(name string, groups ...string) (cert, key []byte, err error) {
	if name == "" { // as a certificate it would be anonymous
		return nil, nil, errors.New("make a client certificate: a user needs a name")
	}
	p, err := newPair(ECDSA, leaf(pkix.Name{CommonName: name, Organization: groups}, x509.ExtKeyUsageClientAuth, time.Now()),
		&c.ca)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate for %s: %w", name, err)
	}
	return p.certPEM, p.keyPEM, nil
}

// WriteKubeconfig writes dir/kubeconfig for a server at url, with the
// administrator's certificate inside, and returns its absolute path.
func (c *Credentials) WriteKubeconfig(url string) (string, error) {
	body, err := c.encodeKubeconfig(url)
	if err != nil {
		return "", fmt.Errorf("encode kubeconfig: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w", err)
	}
	if err := durable.WriteFile(path, body); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}

// encodeKubeconfig writes the context gapless for the server and, if localhost is the same
// server, gapless-localhost: clients that can only compare names reject the certificate of
// an address (rustls before 0.21, in kube-rs 0.78).
func (c *Credentials) encodeKubeconfig(server string) ([]byte, error) {
	type named struct {
		Name    string         `json:"name"`
		Cluster map[string]any `json:"cluster,omitempty"`
		Context map[string]any `json:"context,omitempty"`
		User    map[string]any `json:"user,omitempty"`
	}
	var clusters, contexts []named
	add := func(name, address string) {
		clusters = append(clusters, named{
			Name: name, Cluster: map[string]any{"server": address, "certificate-authority-data": c.CA()},
		})
		contexts = append(contexts, named{
			Name: name, Context: map[string]any{"cluster": name, "user": "gapless", "namespace": "default"},
		})
	}
	add("gapless", server)
	if byName := localhostURL(server); byName != "" {
		add("gapless-localhost", byName)
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "gapless", "clusters": clusters, "contexts": contexts,
		"users": []named{
			{
				Name: "gapless",
				User: map[string]any{"client-certificate-data": c.admin.certPEM, "client-key-data": c.admin.keyPEM},
			},
		},
	})
}

// localhostURL is the URL with the host localhost, if that is the same address; else "".
func localhostURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "::1" {
		return ""
	}
	u.Host = net.JoinHostPort("localhost", u.Port())
	return u.String()
}
