package auth

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/wire"
)

// RefuseClaims returns 403 for a request whose headers name a user that a front proxy has
// authenticated: X-Remote-*, kubeadm's names of --requestheader-*-headers. The server trusts no
// front proxy; if it ignored such a header, as upstream does unless its front proxy sends it, every
// user behind a proxy that relies on them would be who the proxy is.
func RefuseClaims(h http.Header) error {
	first := "" // in alphabetical order, since a map has none
	for name := range h {
		if claims(name) && (first == "" || name < first) {
			first = name
		}
	}
	if first == "" {
		return nil
	}
	return wire.Forbidden(schema.GroupResource{}, "", fmt.Sprintf(
		"the header %s names a user authenticated by a front proxy, but this server trusts no front proxy: nothing was done; a "+
			"client certificate or a bearer token identifies a caller", first))
}

// claims reports whether a header names a user.
func claims(name string) bool {
	for _, whole := range []string{"X-Remote-User", "X-Remote-Group", "X-Remote-Uid"} {
		if strings.EqualFold(name, whole) {
			return true
		}
	}
	const prefix = "X-Remote-Extra-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}
