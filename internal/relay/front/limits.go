package front

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/pass"
)

// passed is a handler for requests that are passed on, which counts them for the limits of connections and
// of one client. Who sends them, only upstream knows: a connection is known once upstream has accepted a
// token that came over it (Heard), or by its certificate.
func (f *Front) passed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		conn := limit.Of(req.Context())
		if req.Context().Err() != nil { // canceled before it began: the client does not wait for an answer
			conn.Fault(limit.Resets)
			panic(http.ErrAbortHandler) // a return would be 200
		}
		rec := &firstCode{ResponseWriter: w, conn: conn}
		defer func() {
			if rec.code == 0 && req.Context().Err() != nil {
				conn.Fault(limit.Resets)
			}
		}()
		if !f.cfg.Access.Anonymous(req) {
			body, end := conn.Try(req.Body)
			defer end()
			req = req.WithContext(req.Context()) // a copy
			req.Body = body
		}
		release, err := f.takePlace(req)
		if err != nil {
			refusal.Write(rec, err)
			return
		}
		defer release()
		req, end := f.traced(rec, req)
		defer end()
		next.ServeHTTP(rec, req)
	})
}

// takePlace takes a place for a request that is passed on: a watch among watches, and a change among
// changes. Reads, and what may last for hours, are bounded by upstream.
func (f *Front) takePlace(req *http.Request) (release func(), err error) {
	lasts, watches := pass.Lasts(req)
	switch {
	case watches:
		return f.cfg.API.TakeWatch(req.Context(), f.senderOf(req))
	case lasts, req.Header.Get("Upgrade") != "":
		return func() {}, nil
	}
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return func() {}, nil
	}
	return f.cfg.API.TakeWriting(req.Context(), f.senderOf(req))
}

// senderOf returns the client for the limits of one client of a request that is passed on: the user of its
// certificate, its token, or its address.
func (f *Front) senderOf(req *http.Request) string {
	if caller, err := f.cfg.Access.Certificate(req); err == nil && caller != nil {
		return caller.GetName()
	}
	if !f.cfg.Access.Anonymous(req) {
		token := sha256.Sum256([]byte(req.Header.Get("Authorization") + req.Header.Get("Sec-Websocket-Protocol")))
		return fmt.Sprintf("token %x", token)
	}
	address, _, _ := net.SplitHostPort(req.RemoteAddr) // "" is one client too
	return "address " + address
}

// Heard returns what is called with each answer of upstream. One to a token about resources, other than that it is
// not known, is from who knows the caller: upstream answers requests for its version or its health to
// everybody, and some codes before it looks at tokens.
func Heard(callers *access.Access) func(req *http.Request, code int) {
	return func(req *http.Request, code int) {
		about := strings.HasPrefix(req.URL.Path, "/api/") || strings.HasPrefix(req.URL.Path, "/apis/")
		if !about || callers.Anonymous(req) {
			return
		}
		switch {
		case code < http.StatusBadRequest, code == http.StatusForbidden, code == http.StatusNotFound, code == http.StatusConflict,
			code == http.StatusUnprocessableEntity:
			limit.Of(req.Context()).Known(req.ProtoMajor)
		}
	}
}

// firstCode remembers with which code a request was answered, and counts those of nobody who is known.
type firstCode struct {
	http.ResponseWriter

	conn *limit.Conn
	code int
}

// WriteHeader implements http.ResponseWriter.
func (f *firstCode) WriteHeader(code int) {
	informational := code < http.StatusOK && code != http.StatusSwitchingProtocols
	if f.code == 0 && !informational {
		f.code = code
		if code == http.StatusUnauthorized {
			f.conn.Fault(limit.Anonymous)
		}
	}
	f.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (f *firstCode) Write(p []byte) (int, error) {
	if f.code == 0 {
		f.code = http.StatusOK
	}
	return f.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (f *firstCode) Unwrap() http.ResponseWriter { return f.ResponseWriter }
