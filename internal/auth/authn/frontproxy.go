package authn

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// FrontProxy identifies callers by the headers of a proxy that has authenticated them, and which proves who it is with a
// client certificate (apiserver authentication/request/headerrequest).
type FrontProxy struct {
	// Trusted reports whether a CA is one whose certificates are proxies'.
	Trusted func(ca *x509.Certificate) bool
	// AllowedNames are the common names of proxies; without any, every certificate of the CAs is one.
	AllowedNames []string
	// UserHeaders, UIDHeaders and GroupHeaders are names of headers. The first that has a user or UID counts, and all
	// groups do. ExtraPrefixes begin the names of headers whose ends are keys.
	UserHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

var errNoProxy = errors.New("the client certificate is not one of a front proxy")

// AuthenticateRequest implements authenticator.Request. A request without a certificate, or of a proxy that names no
// user, has nobody who is known. It removes the headers of a caller that it knows.
func (p *FrontProxy) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, false, nil
	}
	if err := p.check(r.TLS.VerifiedChains); err != nil {
		return nil, false, err
	}
	name := firstOf(r.Header, p.UserHeaders)
	if name == "" {
		return nil, false, nil
	}
	u := &user.DefaultInfo{Name: name, UID: firstOf(r.Header, p.UIDHeaders), Extra: map[string][]string{}}
	for _, header := range p.GroupHeaders {
		for _, group := range r.Header.Values(header) {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	for _, prefix := range p.ExtraPrefixes {
		for _, header := range slices.Sorted(maps.Keys(r.Header)) {
			if hasPrefix(header, prefix) {
				key := extraKey(header[len(prefix):])
				u.Extra[key] = append(u.Extra[key], r.Header[header]...)
			}
		}
	}
	p.Clear(r.Header)
	return &authenticator.Response{User: withGroup(u)}, true, nil
}

// check returns why certificates are not a proxy's.
func (p *FrontProxy) check(chains [][]*x509.Certificate) error {
	why, now := errNoProxy, time.Now()
	for _, chain := range chains {
		if !p.Trusted(chain[len(chain)-1]) {
			continue
		}
		if err := inForce(chain, now); err != nil {
			why = err
			continue
		}
		if name := chain[0].Subject.CommonName; len(p.AllowedNames) > 0 && !slices.Contains(p.AllowedNames, name) {
			return fmt.Errorf("x509: subject with cn=%s is not in the allowed list", name)
		}
		return nil
	}
	return why
}

// Clear removes the headers that name a user: kubeadm's, and those that are configured.
func (p *FrontProxy) Clear(h http.Header) {
	standard := []string{"X-Remote-User", "X-Remote-Uid", "X-Remote-Group"}
	for _, name := range slices.Concat(standard, p.UserHeaders, p.UIDHeaders, p.GroupHeaders) {
		h.Del(name)
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return hasPrefix(name, "X-Remote-Extra-") ||
			slices.ContainsFunc(p.ExtraPrefixes, func(prefix string) bool { return hasPrefix(name, prefix) })
	})
}

// firstOf returns the first value of headers that is not empty.
func firstOf(h http.Header, names []string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
