package auth

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Reader is a part of this process that reads objects as nobody who sends requests can: its own have a value in their
// contexts, which is not made of what a client sends. It may get and list objects of all kinds, without subresources,
// and get some paths; nothing else. Its name gives no rights: a certificate or a token with it is another user.
type Reader struct {
	who   *user.DefaultInfo
	paths []string
}

// NewReader returns a reader with a name for the audit log and the limits of requests, which may also get some paths.
func NewReader(name string, paths ...string) *Reader {
	return &Reader{&user.DefaultInfo{Name: name}, paths}
}

type readerKey struct{}

// Mark returns a request as one of the reader.
func (r *Reader) Mark(req *http.Request) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), readerKey{}, r))
}

// Authenticator returns one that also knows the reader; of a nil reader, the one that is given.
func (r *Reader) Authenticator(of Authenticator) Authenticator {
	if r == nil {
		return of
	}
	return readerKnown{of, r}
}

// Authorizer returns one that also decides about the reader, for which it never asks the one that is given; of a nil
// reader, the latter.
func (r *Reader) Authorizer(of Authorizer) Authorizer {
	if r == nil {
		return of
	}
	return readerMay{of, r}
}

type readerKnown struct {
	Authenticator

	reader *Reader
}

// Authenticate implements Authenticator.
func (k readerKnown) Authenticate(req *http.Request) (user.Info, error) {
	if req.Context().Value(readerKey{}) == k.reader {
		return k.reader.who, nil
	}
	return k.Authenticator.Authenticate(req)
}

type readerMay struct {
	Authorizer

	reader *Reader
}

// Authorize implements Authorizer.
func (m readerMay) Authorize(ctx context.Context, u user.Info, a Attributes) error {
	if u != user.Info(m.reader.who) {
		return m.Authorizer.Authorize(ctx, u, a)
	}
	return m.Decide(ctx, u, a).Err(u, a)
}

// Decide implements Authorizer.
func (m readerMay) Decide(ctx context.Context, u user.Info, a Attributes) Decision {
	switch {
	case u != user.Info(m.reader.who):
		return m.Authorizer.Decide(ctx, u, a)
	case a.Path != "":
		return Decision{Allowed: a.Verb == "get" && slices.Contains(m.reader.paths, a.Path)}
	}
	return Decision{Allowed: a.Subresource == "" && (a.Verb == "get" || a.Verb == "list")}
}
