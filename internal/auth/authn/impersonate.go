package authn

import (
	"context"
	"hash/maphash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/lru"

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

// keptModes bounds for how many callers the mode that allowed the last impersonation is kept, of about 100 bytes each
// (apiserver endpoints/filters/impersonation/cache.go).
const keptModes = 10_000

// Impersonation decides as which users requests run. It is safe for concurrent use.
type Impersonation struct {
	authorizer auth.Authorizer
	modes      []mode
	// last has the index of the mode that allowed the last impersonation of a caller, by the hash of his name: it is tried
	// first, so that whoever uses the verb "impersonate" is not asked about the others each time. Where two names have
	// one hash, only the order of the modes changes. No permission is kept: a change of a role holds at once.
	last    *lru.Cache
	seed    maphash.Seed
	metrics metrics
}

// NewImpersonation returns an Impersonation that asks an authorizer.
func NewImpersonation(a auth.Authorizer) *Impersonation {
	return &Impersonation{
		authorizer: a, modes: modes(), last: lru.New(keptModes), seed: maphash.MakeSeed(), metrics: newMetrics(),
	}
}

// Runs is the user that a request runs as.
type Runs struct {
	As user.Info
	// Constraint is the verb of constrained impersonation that was allowed; "" if it was "impersonate", and without
	// impersonation.
	Constraint string
}

// User returns the user that a request is to run as: that of its Impersonate-* headers, if the
// authorizer lets the caller impersonate each part of that user, and the caller without such
// headers. It removes the headers. Errors: 403, and 400 for headers from which no user follows; what an
// authorizer answers instead that could not ask somebody else.
//
// The rules are upstream's (endpoints/filters/impersonation). Upstream ignores what it does not
// understand: other headers of the prefix, an empty user, further values of a user or UID. Such a
// request would run with the rights of the caller, which may be larger: here it is 400.
func (i *Impersonation) User(ctx context.Context, h http.Header, caller user.Info, of auth.Attributes) (Runs, error) {
	if !Impersonates(h) {
		return Runs{As: caller}, nil
	}
	wanted, err := wantedUser(h)
	if err != nil {
		return Runs{}, err
	}
	runs, err := i.allowed(ctx, attempt{caller: caller, wanted: wanted, request: of})
	if err != nil {
		return Runs{}, err
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool { return hasPrefix(name, impersonatePrefix) })
	return runs, nil
}

// allowed tries the modes. The error is that of the first that is for the wanted user, as upstream's; or of the first that
// could not be decided, since the caller may be allowed to.
func (i *Impersonation) allowed(ctx context.Context, a attempt) (Runs, error) {
	began := time.Now()
	hash := maphash.String(i.seed, a.caller.GetName())
	first := -1
	if kept, is := i.last.Get(hash); is {
		first, _ = kept.(int) // nothing else is there
	}
	var why error
	for _, at := range inOrder(len(i.modes), first) {
		m := i.modes[at]
		if !m.takes(a.wanted, a.caller) {
			continue
		}
		err := a.by(m, i).allowed(ctx)
		if err == nil {
			if at != first {
				i.last.Add(hash, at)
			}
			i.metrics.attempts.count(m.label(), allowed, began)
			return Runs{As: m.completed(a.wanted), Constraint: m.constraint()}, nil
		}
		if why == nil || isForbidden(why) && !isForbidden(err) {
			why = err
		}
	}
	i.metrics.attempts.count("", denied, began)
	return Runs{}, why // the last mode takes every user
}

// inOrder returns the numbers below n, with one of them first; -1 is none.
func inOrder(n, first int) []int {
	order := make([]int, 0, n)
	if first >= 0 {
		order = append(order, first)
	}
	for at := range n {
		if at != first {
			order = append(order, at)
		}
	}
	return order
}

func isForbidden(err error) bool { return wire.StatusOf(err).Code == http.StatusForbidden }

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
			if len(values) != 1 || values[0] == "" && one != &wanted.Name { // no name has upstream's text
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

// hasPrefix ignores case: the header's name may not be canonical.
func hasPrefix(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}
