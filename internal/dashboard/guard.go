package dashboard

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// sessionCookie holds the bearer token of who has logged in. Browsers take __Host- only over TLS, and send it to
// this host only.
const sessionCookie = "__Host-gapless-token"

// maxLogin is the size of a form with a token, in bytes: tokens of service accounts have about 1 KiB.
const maxLogin = 64 << 10

// writeWithin is how long the answer to a request may take, with what it reads.
const writeWithin = time.Minute

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
		"img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would make the Origin of forms null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	// A client that does not read is cut off. A server without this has no such clients: tests.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
	if why := d.refuses(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// refuses returns why a request is not served; "": it is. Without credentials of the caller only the Host header tells
// that a browser did not take this server for another site, whose name now resolves to a loopback address (DNS
// rebinding). Pages of other sites may link here, and do nothing else.
func (d *Dashboard) refuses(r *http.Request) string {
	if d.cfg.Open != nil && !isOwn(r.Host) {
		return fmt.Sprintf("host %q is not allowed: use localhost or a loopback address", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if from, err := url.Parse(origin); err != nil || from.Host != r.Host {
			return "requests from pages of other sites are not allowed"
		}
	}
	site := r.Header.Get("Sec-Fetch-Site") // which only browsers send
	link := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
	if site != "" && site != "none" && site != "same-origin" && !link {
		return "requests from pages of other sites are not allowed"
	}
	return ""
}

// isOwn reports whether a Host header names this server.
func isOwn(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return IsLoopback(host)
}

// IsLoopback reports whether a host is a loopback address or localhost, without asking DNS.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// identify returns a request for the API with the credentials of the caller of the page, or those of Open.
func (d *Dashboard) identify(of, r *http.Request) *http.Request {
	if d.cfg.Open != nil {
		return d.cfg.Open(of)
	}
	of.TLS = r.TLS
	if token := r.Header.Get("Authorization"); token != "" {
		of.Header.Set("Authorization", token)
	} else if cookie, err := r.Cookie(sessionCookie); err == nil {
		of.Header.Set("Authorization", "Bearer "+cookie.Value)
	}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") { // a proxy reads for somebody who may do less
			of.Header[name] = slices.Clone(values)
		}
	}
	return of
}

// hasCredentials reports whether a request of a page has any.
func hasCredentials(r *http.Request) bool {
	if r.Header.Get("Authorization") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return true
	}
	_, err := r.Cookie(sessionCookie)
	return err == nil
}

func (d *Dashboard) loginForm(w http.ResponseWriter, r *http.Request) {
	d.render(w, r, view{Page: "login", Code: http.StatusOK, Title: "Log in"})
}

// login keeps a bearer token in the browser, if the API knows it. The server keeps nothing.
func (d *Dashboard) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	token := strings.TrimSpace(r.PostFormValue("token"))
	cookie := &http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	as := r.Clone(r.Context())
	as.Header = http.Header{"Authorization": {"Bearer " + token}}
	if token == "" || cookie.Valid() != nil || d.knows(as) != nil {
		d.render(w, r, view{
			Page: "login", Code: http.StatusUnauthorized, Title: "Log in", Data: "The server does not know this token.",
		})
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (d *Dashboard) logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Path: "/", MaxAge: -1, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
