package pass

import (
	"context"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"
)

// refused is 403 for a caller with a certificate.
func refused(u user.Info, why string) error {
	return wire.Forbidden(schema.GroupResource{}, "", fmt.Sprintf("User %q is not passed on: %s", u.GetName(), why))
}

// checkUser returns why a user cannot be named in headers. Upstream reads a header without the spaces
// around it, and the keys of extra information in lower case: a certificate for "admins " would become
// one for "admins".
func checkUser(u user.Info) error {
	check := func(what string, values ...string) error {
		for _, v := range values {
			isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
			if textproto.TrimString(v) != v || strings.ContainsFunc(v, isControl) {
				return refused(u, fmt.Sprintf("%s %q cannot be sent in a header without changing it", what, v))
			}
		}
		return nil
	}
	if err := check("the name", u.GetName()); err != nil {
		return err
	}
	if err := check("the UID", u.GetUID()); err != nil {
		return err
	}
	if slices.Contains(u.GetGroups(), "") {
		return refused(u, "a group has no name")
	}
	if err := check("the group", u.GetGroups()...); err != nil {
		return err
	}
	// Without any group, upstream gives a service account those of service accounts.
	if len(u.GetGroups()) == 0 {
		return refused(u, "the user has no group, and should be at least in "+user.AllAuthenticated)
	}
	for name, values := range u.GetExtra() {
		if name == "" || strings.ToLower(name) != name {
			return refused(u, fmt.Sprintf("the extra key %q cannot be sent in a header without changing it", name))
		}
		if err := check("the extra value", values...); err != nil {
			return err
		}
	}
	return nil
}

// removeToken removes the credentials of a caller who is known by a certificate, in the header and
// among the subprotocols of a WebSocket. Transports add their own only where there are none.
func removeToken(r *http.Request) {
	r.Header.Del("Authorization")
	_, _, _ = authn.Bearer(authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		return &authenticator.Response{}, true, nil // a token that is known is removed
	})).AuthenticateRequest(r)
}

// keepSwitches removes a wish to continue in another protocol on the same connection, unless it is one of
// those of commands and port-forwarding, which begin with an answer of upstream to this caller. Others may
// carry further requests, such as h2c, also among several that a client offers: the relay could not read
// them, and they would come with its own credentials. A server may ignore the wish.
func keepSwitches(h http.Header) {
	offered := h["Upgrade"]
	if len(offered) == 1 && (strings.EqualFold(offered[0], "websocket") || strings.EqualFold(offered[0], "SPDY/3.1")) {
		return
	}
	if len(offered) > 0 {
		h.Del("Upgrade")
		h.Del("Connection")
	}
}

// checkConnection refuses a header Connection that names a header which says who the caller is: a
// proxy has to remove those that it names, and the request would become that of another user.
func checkConnection(h http.Header) error {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.TrimString(name)
			if strings.EqualFold(name, "Authorization") || authn.Impersonates(http.Header{name: nil}) {
				return wire.BadRequest(
					"the header Connection names %s, which is not about the connection but about the caller: nothing was done",
					name)
			}
		}
	}
	return nil
}
