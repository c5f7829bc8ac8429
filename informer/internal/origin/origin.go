// Package origin tells API servers, and who asks them, apart.
//
// It has one noun. A [Server] is an API server as one client's configuration sees
// it: where it is, and with whose rights and by which way it is asked.
package origin

import (
	"crypto/sha256"
	"fmt"
	"time"
	"weak"

	"k8s.io/client-go/rest"
)

// Server is a server and who asks it. Two of them, compared by ==, are equal only if
// the same request gets the same objects from both. The zero value is no server.
type Server struct {
	settings [sha256.Size]byte         // of what can be compared, secrets among it
	own      weak.Pointer[rest.Config] // zero: all can be compared. Weak, so that it cannot be printed either
}

// Of returns the server of a configuration. Copies of a configuration are the same
// server as the original. If it has parts that nobody can compare, functions and
// plug-ins for credentials, then it is the same server only as itself.
//
// How the server is asked (QPS, user agent, media types, compression, warnings) does
// not count.
func Of(cfg *rest.Config) Server {
	if cfg == nil {
		return Server{}
	}
	type tls rest.TLSClientConfig // without its GoString, which hides secrets: they are to count
	settings := struct {
		Host, APIPath, Username, Password, BearerToken, BearerTokenFile string

		Impersonate rest.ImpersonationConfig
		TLS         tls
		Timeout     time.Duration
	}{
		cfg.Host, cfg.APIPath, cfg.Username, cfg.Password, cfg.BearerToken, cfg.BearerTokenFile,
		cfg.Impersonate, tls(cfg.TLSClientConfig), cfg.Timeout,
	}
	// A hash, so that no secret is kept or printed. %#v quotes strings and sorts maps.
	s := Server{settings: sha256.Sum256(fmt.Appendf(nil, "%#v", settings))}
	if cfg.AuthProvider != nil || cfg.AuthConfigPersister != nil || cfg.ExecProvider != nil ||
		cfg.Transport != nil || cfg.WrapTransport != nil || cfg.Dial != nil || cfg.Proxy != nil {
		s.own = weak.Make(cfg)
	}
	return s
}
