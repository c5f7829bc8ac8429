// Package identity identifies API servers and the credentials that they are accessed with.
//
// A [Server] identifies the API server and the credentials of a client configuration. A
// [Witness] tells a server of ours which of its starts answered last, so that the server can
// refuse positions from before its data was replaced.
package identity

import (
	"crypto/sha256"
	"fmt"
	"time"
	"weak"

	"k8s.io/client-go/rest"
)

// Server identifies a server and the credentials for it. Two are equal, by ==, only if the
// same request gets the same objects from both. The zero value is no server.
type Server struct {
	settings [sha256.Size]byte         // of what can be compared, secrets among it
	own      weak.Pointer[rest.Config] // zero: all can be compared. Weak, so that it cannot be printed either
}

// Of returns the server of a configuration. Copies of a configuration are the same
// server as the original. A configuration with parts that cannot be compared,
// such as functions and credential plug-ins, is equal only to itself.
//
// Settings that do not affect the objects (QPS, user agent, media types, compression,
// warnings) do not count.
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
