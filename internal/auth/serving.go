package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"
)

// reloadEvery is how often files are looked at for a change, as upstream does besides watching them
// (dynamiccertificates).
const reloadEvery = time.Minute

// Files are certificates and CAs that somebody else maintains. "" is none.
type Files struct {
	// Cert and Key are a serving certificate, with its intermediates, and its key, in PEM. It is
	// served for the names and addresses that it is valid for, the server's own one for others.
	Cert, Key string
	// ClientCA has further CAs of client certificates, in PEM.
	ClientCA string
	// FrontProxyCA has the CAs of front proxies, in PEM. Their certificates are not clients'.
	FrontProxyCA string
	// AnyProxy says that every certificate of those CAs is a front proxy's. Then none of them may be one of clients.
	AnyProxy bool
}

// Check returns why the files cannot be used.
func (f Files) Check() error {
	_, err := (&Credentials{files: f}).readFiles(&serving{})
	return err
}

// serving is what handshakes use. It is immutable.
type serving struct {
	own     tls.Certificate
	given   *tls.Certificate // nil: none
	trusted []*x509.Certificate
	proxies []*x509.Certificate
	config  *tls.Config
	// sources are the bytes that it was made of, to notice changes.
	sources [][]byte
	// extra are the given certificates as PEM, for clients to trust.
	extra []byte
}

// ServerTLS returns the current TLS configuration of the server: HTTP/2 and HTTP/1.1, TLS 1.2 or
// newer, client certificates verified against the CAs when they are sent.
func (c *Credentials) ServerTLS() *tls.Config { return c.current.Load().config }

// Trusted reports whether ca is a CA of client certificates now.
func (c *Credentials) Trusted(ca *x509.Certificate) bool {
	return slices.ContainsFunc(c.current.Load().trusted, ca.Equal)
}

// TrustedProxy reports whether ca is a CA of front proxies now.
func (c *Credentials) TrustedProxy(ca *x509.Certificate) bool {
	return slices.ContainsFunc(c.current.Load().proxies, ca.Equal)
}

// ClientCAs returns the CAs of client certificates now, and those of front proxies, in PEM.
func (c *Credentials) ClientCAs() (clients, proxies []byte) {
	served := c.current.Load()
	return encodeAll(served.trusted), encodeAll(served.proxies)
}

func encodeAll(certs []*x509.Certificate) []byte {
	var chain [][]byte
	for _, cert := range certs {
		chain = append(chain, cert.Raw)
	}
	return encodeCertificates(chain)
}

// Run keeps what is served up to date until ctx ends: it renews the own serving certificate in time,
// and reads the files again when they change. Handshakes from then on use them.
func (c *Credentials) Run(ctx context.Context, logger *slog.Logger) error {
	ticks := time.NewTicker(reloadEvery)
	defer ticks.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticks.C:
			changed, err := c.Reload(now)
			if changed {
				logger.LogAttrs(ctx, slog.LevelInfo, "certificates were read again")
			}
			if err == nil {
				said = ""
			} else if text := err.Error(); text != said {
				said = text
				logger.LogAttrs(ctx, slog.LevelWarn, "certificates could not be read again; the former ones are in use",
					slog.String("err", text))
			}
		}
	}
}

// Reload does what Run does once, and reports whether something changed. After an error the former
// certificates are in use. It is not safe for concurrent use with itself.
func (c *Credentials) Reload(now time.Time) (changed bool, err error) {
	own := pair{}
	if err := c.load("serving", &own); err != nil {
		return false, err
	}
	if own.cert != nil {
		c.serving = own
	}
	if !c.serving.usable(&c.ca, c.hosts, now) {
		if err := c.create("serving", &c.serving, func() (pair, error) { return newServing(&c.ca, c.hosts, now) }); err != nil {
			return false, err
		}
	}
	made, err := c.newServingState()
	if err != nil {
		return false, err
	}
	if before := c.current.Load(); before != nil && slices.EqualFunc(before.sources, made.sources, bytes.Equal) {
		return false, nil
	}
	c.current.Store(made)
	return true, nil
}

// newServingState makes what handshakes use, from the pairs and the files.
func (c *Credentials) newServingState() (*serving, error) {
	s, err := c.readFiles(&serving{
		own: c.serving.tls(), trusted: []*x509.Certificate{c.ca.cert}, sources: [][]byte{c.serving.certPEM},
	})
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	for _, ca := range slices.Concat(s.trusted, s.proxies) {
		roots.AddCert(ca)
	}
	s.config = &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: s.choose,
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      roots,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	return s, nil
}

// readFiles adds to s what is in the files.
func (c *Credentials) readFiles(s *serving) (*serving, error) {
	if c.files.Cert != "" {
		certPEM, certErr := os.ReadFile(c.files.Cert)
		keyPEM, keyErr := os.ReadFile(c.files.Key)
		if err := errors.Join(certErr, keyErr); err != nil {
			return nil, fmt.Errorf("read the serving certificate: %w", err)
		}
		given, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("%s and %s do not hold a certificate and its key: %w", c.files.Cert, c.files.Key, err)
		}
		s.given, s.extra = &given, encodeCertificates(given.Certificate)
		s.sources = append(s.sources, certPEM, keyPEM)
	}
	for _, from := range []struct {
		file, whose string
		to          *[]*x509.Certificate
	}{
		{c.files.ClientCA, "clients", &s.trusted},
		{c.files.FrontProxyCA, "front proxies", &s.proxies},
	} {
		if from.file == "" {
			continue
		}
		body, err := os.ReadFile(from.file)
		if err != nil {
			return nil, fmt.Errorf("read the CAs of %s: %w", from.whose, err)
		}
		more, err := parseCertificates(body)
		if err != nil {
			return nil, fmt.Errorf("read the CAs of %s from %s: %w", from.whose, from.file, err)
		}
		*from.to = append(*from.to, more...)
		s.sources = append(s.sources, body)
	}
	overlap := func(ca *x509.Certificate) bool { return slices.ContainsFunc(s.proxies, ca.Equal) }
	if c.files.AnyProxy && slices.ContainsFunc(s.trusted, overlap) { // upstream's text, but for the server's own CA
		return nil, errors.New("--requestheader-client-ca-file and --client-ca-file, or pki/ca.crt of the data directory, " +
			"contain overlapping certificates; --requestheader-allowed-names must be specified to ensure regular client " +
			"certificates cannot set authenticating proxy headers for arbitrary users")
	}
	return s, nil
}

// choose returns the certificate for a handshake: the given one if it is valid for the name that the
// client asks for, or, without a name, for the address that it reached; or if the own one is not either.
func (s *serving) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s.given == nil {
		return &s.own, nil
	}
	name := hello.ServerName
	if name == "" && hello.Conn != nil {
		name, _, _ = net.SplitHostPort(hello.Conn.LocalAddr().String()) // "" is valid for none
	}
	covers := func(cert *x509.Certificate) bool { return cert.VerifyHostname(name) == nil }
	if covers(s.own.Leaf) && !covers(s.given.Leaf) {
		return &s.own, nil
	}
	return s.given, nil
}

// parseCertificates reads all certificates of a file in PEM. Other blocks are an error: a private
// key does not belong there.
func parseCertificates(body []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	blocks := bytes.Count(body, []byte("-----BEGIN "))
	for block, rest := pem.Decode(body); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %s, want certificates only", block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no certificate in PEM")
	}
	if len(all) < blocks { // half a file would withdraw the CAs of the other half
		return nil, fmt.Errorf("%d of its %d blocks of PEM can be read: perhaps it is being written", len(all), blocks)
	}
	return all, nil
}

func encodeCertificates(chain [][]byte) []byte {
	var out bytes.Buffer
	for _, der := range chain {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return out.Bytes()
}
