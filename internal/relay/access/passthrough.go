package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"
)

// ReaderPrefix begins the names of callers in Passthrough, before the hash of their credentials.
const ReaderPrefix = "system:gapless:reader:"

// passthrough asks upstream by requests with the credentials of the callers.
type passthrough struct {
	*Access

	// accepted has the credentials that upstream has allowed to read a resource.
	accepted *memo[struct{}]
}

func newPassthrough(a *Access) *passthrough {
	return &passthrough{Access: a, accepted: newMemo[struct{}](keptTokens, a.cfg, func(source) {})}
}

// reader is a caller whose credentials only upstream can check.
type reader struct {
	user.DefaultInfo

	key         key
	credentials http.Header // Authorization and Impersonate-*
}

func errNoCertificates() error {
	return wire.Forbidden(schema.GroupResource{}, "",
		"this relay passes the credentials of callers on to upstream, and it cannot pass a client certificate on: nothing was "+
			"done; use a bearer token")
}

// authenticate implements mode. The headers Impersonate-* are a part of the credentials: upstream
// decides about both at once, and nobody else has to.
func (p *passthrough) authenticate(r *http.Request) (user.Info, error) {
	credentials := http.Header{}
	_, known, err := authn.Bearer(
		authenticator.TokenFunc(func(_ context.Context, token string) (*authenticator.Response, bool, error) {
			credentials.Set("Authorization", "Bearer "+token)
			return &authenticator.Response{}, true, nil
		})).AuthenticateRequest(r)
	switch {
	case !known && err == nil && hasCertificate(r):
		return nil, errNoCertificates()
	case !known:
		return nil, p.unknown(r.Context(), err)
	}
	r.Header.Del("Authorization") // further ones
	for name, values := range r.Header {
		if authn.Impersonates(http.Header{name: nil}) {
			credentials[name] = values
			delete(r.Header, name)
		}
	}
	u := &reader{credentials: credentials}
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(credentials)) {
		all = fmt.Appendf(all, "%q %q\n", name, credentials[name])
	}
	u.key = p.keyOf(all)
	u.Name = fmt.Sprintf("%s%x", ReaderPrefix, u.key)
	return u, nil
}

func (p *passthrough) known(r *http.Request) (user.Info, error) {
	u, err := p.authenticate(r)
	if err != nil {
		return nil, err
	}
	who, _ := u.(*reader) // authenticate returns nothing else
	if p.accepted.usable(who.key, time.Now()) == nil {
		return nil, unavailable(r.Context(), "who the caller is",
			errors.New("upstream has not accepted these credentials lately"))
	}
	return u, nil
}

// question implements mode.
func (p *passthrough) question(u user.Info, a auth.Attributes) (question, error) {
	who, is := u.(*reader)
	if !is {
		return question{}, wire.Internal(fmt.Errorf("a caller is a %T", u))
	}
	req, err := requestOf(a)
	if err != nil {
		return question{}, err
	}
	asked := fmt.Sprintf("%x %s?%s", who.key, req.Path, req.Query.Encode())
	return question{key: p.keyOf([]byte(asked)), ask: func(ctx context.Context) (answer[verdict], error) {
		began := time.Now()
		got, err := p.try(ctx, who, req)
		// Paths such as /version may be open to everybody, whatever credentials come along.
		if err == nil && got.value.allowed && a.Path == "" {
			p.accepted.keep(who.key, answer[struct{}]{}, began)
		}
		return got, err
	}}, nil
}

// requestOf returns the small request to upstream that asks for the permission that a wants.
func requestOf(a auth.Attributes) (client.Request, error) {
	cannot := wire.Forbidden(a.Resource, a.Name,
		fmt.Sprintf("this relay passes the credentials of callers on to upstream, and cannot ask whether they may %s here",
			a.Verb))
	if a.Path != "" {
		if a.Verb != "get" && a.Verb != "head" {
			return client.Request{}, cannot
		}
		return client.Request{Path: (&url.URL{Path: a.Path}).EscapedPath()}, nil
	}
	path := []string{"", "api", a.Version}
	if a.Resource.Group != "" {
		path = []string{"", "apis", a.Resource.Group, a.Version}
	}
	// The namespace of a namespace is itself.
	if a.Namespace != "" && a.Resource != (schema.GroupResource{Resource: "namespaces"}) {
		path = append(path, "namespaces", a.Namespace)
	}
	path = append(path, a.Resource.Resource)
	query := url.Values{}
	for name, value := range map[string]string{"fieldSelector": a.FieldSelector, "labelSelector": a.LabelSelector} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if a.Name != "" && a.FieldSelector == "" { // of a path below /watch/
		query.Set("fieldSelector", "metadata.name="+a.Name)
	}
	switch a.Verb {
	case "list":
		query.Set("limit", "1")
	case "watch":
		// A role may allow one of list and watch only. From a version so old, upstream sends nothing
		// of what is there now: it answers 410, or with changes that are not read.
		query.Set("watch", "1")
		query.Set("resourceVersion", "1")
		query.Set("timeoutSeconds", "1")
	case "get":
		query = nil
		path = append(path, a.Name)
		if a.Subresource == "status" || a.Subresource == "scale" { // others may do something
			path = append(path, a.Subresource)
		} else if a.Subresource != "" {
			return client.Request{}, cannot
		}
	default:
		return client.Request{}, cannot
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	return client.Request{Path: strings.Join(path, "/"), Query: query}, nil
}

// try makes the request as who. Only the code of the answer counts: its body is not read.
func (p *passthrough) try(ctx context.Context, who *reader, req client.Request) (answer[verdict], error) {
	ctx, cancel := context.WithCancel(ctx) // ends a watch
	defer cancel()
	as := p.upstream.Through(func(rt http.RoundTripper) http.RoundTripper { return withHeaders{rt, who.credentials} })
	resp, err := as.Do(ctx, req)
	if err == nil {
		_ = resp.Body.Close() // nothing of it was read
	}
	var refused *apierrors.StatusError
	keep := true
	if status, is := errors.AsType[*apierrors.StatusError](err); is {
		switch code := status.ErrStatus.Code; {
		case code == http.StatusUnauthorized || code == http.StatusForbidden:
			refused = status
		case code == http.StatusGone && req.Query.Has("watch"), code == http.StatusNotFound && req.Query == nil:
			err = nil // upstream looks for changes and objects after it has let the caller in
		case !isPassing(err):
			refused, keep = status, false // such as 400 for a selector: it says nothing of permissions
		}
	}
	if refused != nil {
		err = nil
	}
	p.metrics.count(kindCredentials, refused == nil, err)
	switch {
	case err != nil:
		return answer[verdict]{}, err
	case refused == nil:
		return answer[verdict]{value: verdict{allowed: true}, fresh: p.cfg.Allowed}, nil
	case refused.ErrStatus.Code == http.StatusUnauthorized:
		p.accepted.forget(who.key)
	}
	return answer[verdict]{value: verdict{refusal: refused}, fresh: p.cfg.Denied, forget: !keep}, nil
}

// withHeaders adds headers to requests.
type withHeaders struct {
	http.RoundTripper

	add http.Header
}

// RoundTrip implements http.RoundTripper.
func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, w.add)
	return w.RoundTripper.RoundTrip(r)
}
