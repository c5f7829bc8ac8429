package authn

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
)

// keptCertificates bounds how many certificates' users are kept, about 2 KiB each.
const keptCertificates = 4096

// Certificates identifies callers by the client certificate that the TLS layer verified in the
// handshake: the user is its common name, the groups are its organizations. A connection may
// outlive its certificate, and the CA may be withdrawn, so both are looked at again for each
// request, as upstream does by verifying anew.
type Certificates struct {
	trusted func(ca *x509.Certificate) bool

	// mu guards users. crypto/tls shares the *x509.Certificate of equal certificates, so the
	// connections of one client share an entry.
	mu    sync.RWMutex
	users map[*x509.Certificate]*authenticator.Response
}

// NewCertificates returns an authenticator by certificates. trusted reports whether a CA is one whose
// client certificates count now; nil: the TLS layer has decided it, and nothing changes.
func NewCertificates(trusted func(ca *x509.Certificate) bool) *Certificates {
	return &Certificates{trusted: trusted}
}

var errUntrusted = errors.New("the client certificate's CA is not trusted any more")

// AuthenticateRequest implements authenticator.Request. A request without a certificate has nobody
// who is known, and no error.
func (c *Certificates) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, false, nil
	}
	now := time.Now()
	var why error
	for _, chain := range r.TLS.VerifiedChains {
		if why = c.check(chain, now); why == nil {
			return c.user(chain)
		}
	}
	return nil, false, why
}

// check returns why a chain that was verified once does not hold now.
func (c *Certificates) check(chain []*x509.Certificate, now time.Time) error {
	if err := inForce(chain, now); err != nil {
		return err
	}
	if c.trusted != nil && !c.trusted(chain[len(chain)-1]) {
		return errUntrusted
	}
	return nil
}

// inForce returns why a chain of certificates does not count at a time.
func inForce(chain []*x509.Certificate, now time.Time) error {
	for _, cert := range chain {
		if now.After(cert.NotAfter) {
			return fmt.Errorf("the certificate of %q has expired on %s",
				cert.Subject.CommonName, cert.NotAfter.UTC().Format(time.RFC3339))
		}
		if now.Before(cert.NotBefore) {
			return fmt.Errorf("the certificate of %q is not valid before %s",
				cert.Subject.CommonName, cert.NotBefore.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

func (c *Certificates) user(chain []*x509.Certificate) (*authenticator.Response, bool, error) {
	c.mu.RLock()
	kept := c.users[chain[0]]
	c.mu.RUnlock()
	if kept != nil {
		return kept, true, nil
	}
	response, known, err := requestx509.CommonNameUserConversion.User(chain)
	if err != nil || !known {
		return nil, false, err
	}
	named, is := response.User.(*user.DefaultInfo)
	if !is {
		return nil, false, fmt.Errorf("a certificate names a %T", response.User)
	}
	response.User = withGroup(named)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == nil || len(c.users) >= keptCertificates {
		c.users = map[*x509.Certificate]*authenticator.Response{}
	}
	c.users[chain[0]] = response
	return response, true, nil
}
