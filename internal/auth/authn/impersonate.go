package authn

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

const impersonatePrefix = "Impersonate-"

// Impersonates reports whether a header asks to run the request as another user.
func Impersonates(h http.Header) bool {
	for name := range h {
		if hasPrefix(name, impersonatePrefix) {
			return true
		}
	}
	return false
}

// Impersonate returns the user that a request is to run as: that of its Impersonate-* headers, if the
// authorizer lets the caller impersonate each part of that user, and the caller without such
// headers. It removes the headers. Errors: 403, and 400 for headers from which no user follows.
//
// The rules are upstream's (endpoints/filters/impersonation, the verb "impersonate"; its verbs
// impersonate:* of constrained impersonation do not exist here). Upstream ignores what it does not
// understand: other headers of the prefix, an empty user, further values of a user or UID. Such a
// request would run with the rights of the caller, which may be larger: here it is 400.
func Impersonate(ctx context.Context, h http.Header, caller user.Info, a auth.Authorizer) (user.Info, error) {
	if !Impersonates(h) {
		return caller, nil
	}
	wanted, err := wantedUser(h)
	if err != nil {
		return nil, err
	}
	if err := mayImpersonate(ctx, caller, wanted, a); err != nil {
		return nil, err
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool { return hasPrefix(name, impersonatePrefix) })
	namespace, _, err := serviceaccount.SplitUsername(wanted.Name)
	if err == nil && len(wanted.Groups) == 0 {
		wanted.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	switch has := func(group string) bool { return slices.Contains(wanted.Groups, group) }; {
	case wanted.Name == user.Anonymous && !has(user.AllUnauthenticated):
		wanted.Groups = append(wanted.Groups, user.AllUnauthenticated)
	case wanted.Name != user.Anonymous && !has(user.AllUnauthenticated) && !has(user.AllAuthenticated):
		wanted.Groups = append(wanted.Groups, user.AllAuthenticated)
	}
	return wanted, nil
}

// wantedUser reads the headers.
func wantedUser(h http.Header) (*user.DefaultInfo, error) {
	wanted := &user.DefaultInfo{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if !hasPrefix(name, impersonatePrefix) {
			continue
		}
		values := h[name]
		if slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			return nil, wire.BadRequest("the header %s is not UTF-8", name)
		}
		var one *string
		switch {
		case strings.EqualFold(name, authenticationv1.ImpersonateUserHeader):
			one = &wanted.Name
		case strings.EqualFold(name, authenticationv1.ImpersonateUIDHeader):
			one = &wanted.UID
		case strings.EqualFold(name, authenticationv1.ImpersonateGroupHeader):
			if slices.Contains(values, "") {
				return nil, wire.BadRequest("the header %s names no group", name)
			}
			wanted.Groups = append(wanted.Groups, values...)
		case hasPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix) &&
			len(name) > len(authenticationv1.ImpersonateUserExtraHeaderPrefix):
			if wanted.Extra == nil {
				wanted.Extra = map[string][]string{}
			}
			key := extraKey(name[len(authenticationv1.ImpersonateUserExtraHeaderPrefix):])
			wanted.Extra[key] = append(wanted.Extra[key], values...)
		default:
			return nil, wire.BadRequest(
				"the header %s is not known: nothing was done; impersonation takes %s, -Group, -Uid and -Extra-*",
				name, authenticationv1.ImpersonateUserHeader)
		}
		if one != nil {
			if len(values) != 1 || values[0] == "" {
				return nil, wire.BadRequest("the header %s must have one value that is not empty", name)
			}
			*one = values[0]
		}
	}
	if wanted.Name == "" {
		return nil, wire.BadRequest("requested %#v without impersonating a user name", wanted)
	}
	return wanted, nil
}

// extraKey decodes the end of a header's name; one that cannot be decoded is taken as it is.
func extraKey(encoded string) string {
	encoded = strings.ToLower(encoded)
	if key, err := url.PathUnescape(encoded); err == nil {
		return key
	}
	return encoded
}

// mayImpersonate asks for each part of the wanted user, in upstream's order.
func mayImpersonate(ctx context.Context, caller user.Info, wanted *user.DefaultInfo, a auth.Authorizer) error {
	of := func(group, resource, name string) auth.Attributes {
		return auth.Attributes{Verb: "impersonate", Resource: schema.GroupResource{Group: group, Resource: resource}, Name: name}
	}
	named := of("", "users", wanted.Name)
	if namespace, name, err := serviceaccount.SplitUsername(wanted.Name); err == nil {
		named = of("", "serviceaccounts", name)
		named.Namespace = namespace
	}
	asked := []auth.Attributes{named}
	if wanted.UID != "" {
		asked = append(asked, of(authenticationv1.GroupName, "uids", wanted.UID))
	}
	for _, group := range wanted.Groups {
		asked = append(asked, of("", "groups", group))
	}
	for _, key := range slices.Sorted(maps.Keys(wanted.Extra)) {
		for _, value := range wanted.Extra[key] {
			extra := of(authenticationv1.GroupName, "userextras", value)
			extra.Subresource = key
			asked = append(asked, extra)
		}
	}
	for _, attributes := range asked {
		if err := a.Authorize(ctx, caller, attributes); err != nil {
			return err
		}
	}
	return nil
}

// hasPrefix ignores case: the header's name may not be canonical.
func hasPrefix(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}
