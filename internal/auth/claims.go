package auth

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/kube"
)

// RefuseClaims returns 403 for a request whose headers name another user than its
// certificate. The server has no impersonation and no trusted front proxy; if it ignored
// such a header, the request would run with the permissions of the certificate, which may
// be larger.
//
// Upstream impersonates by Impersonate-*, and ignores X-Remote-*, kubeadm's
// names of --requestheader-*-headers, unless its front proxy sends them. Behind a proxy
// that relies on those, every user would be an administrator here.
func RefuseClaims(h http.Header) error {
	first := "" // in alphabetical order, since a map has none
	for name := range h {
		if claims(name) && (first == "" || name < first) {
			first = name
		}
	}
	switch {
	case first == "":
		return nil
	case hasPrefix(first, impersonate):
		return kube.Forbidden(schema.GroupResource{}, "", fmt.Sprintf(
			"the header %s asks for impersonation, which this server does not have: nothing was done; leave it out (kubectl: --as, --as-group, --as-uid) to act as the user of the client certificate", first))
	default:
		return kube.Forbidden(schema.GroupResource{}, "", fmt.Sprintf(
			"the header %s names a user authenticated by a front proxy, but this server trusts no front proxy: nothing was done; only the client certificate identifies a caller", first))
	}
}

const impersonate = "Impersonate-"

// claims reports whether a header names a user.
func claims(name string) bool {
	for _, whole := range []string{"X-Remote-User", "X-Remote-Group", "X-Remote-Uid"} {
		if strings.EqualFold(name, whole) {
			return true
		}
	}
	return hasPrefix(name, impersonate) || hasPrefix(name, "X-Remote-Extra-")
}

// hasPrefix ignores case: the header's name may not be canonical.
func hasPrefix(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}
