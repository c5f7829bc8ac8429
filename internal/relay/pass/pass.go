// Package pass passes the requests that a relay does not answer itself on to the API server that it
// stands in front of, upstream.
//
// A [Handler] passes requests and answers on as they are: bytes, conditions,
// warnings, errors, trailers, and connections that switch to another protocol. A [FrontProxy] is how
// upstream trusts what a Handler says about users, if not by impersonation. [Documents] are those of
// discovery and OpenAPI, the last of which are served while upstream cannot be reached.
//
// Upstream decides who may do what. A caller with a bearer token is passed on with that token and all
// headers, and one without any credentials without any. Only for a caller with a client certificate,
// which cannot be passed on, the relay uses credentials of its own, and says in headers who the
// caller is; the caller's own headers of these names do not pass.
//
// caller.go says which user is named to upstream and which headers never pass
// (TestNobodyIsMoreThroughTheRelay); lasting.go ends watches that are passed on; watch.go
// those of a lost history.
package pass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/upstream"
)

// connectWithin is how long a connection to upstream may take before upstream counts as away.
const connectWithin = 3 * time.Second

// Config configures a Handler.
type Config struct {
	// Upstream is the API server, with the relay's credentials. They are used only for callers with a
	// client certificate, which they must be allowed to impersonate, and not at all with a FrontProxy.
	Upstream *rest.Config
	// Certificate returns who sent a request by a client certificate, nil for a request without one
	// that counts, and an error that refuses the request. It changes nothing of the request.
	Certificate func(r *http.Request) (user.Info, error)
	// FrontProxy makes upstream know callers with certificates by X-Remote-* headers; nil: by
	// impersonation.
	FrontProxy *FrontProxy
	// Answered is called with each request that upstream has answered, and the code; nil: nothing is.
	Answered func(r *http.Request, code int)
	Logger   *slog.Logger // nil discards
}

// FrontProxy is the client certificate of --requestheader-client-ca-file that upstream trusts to name
// users, by the headers X-Remote-User, X-Remote-Uid, X-Remote-Group and X-Remote-Extra-*, kubeadm's
// names. The files are read again when they change.
type FrontProxy struct{ CertFile, KeyFile string }

// Handler passes requests on. It is safe for concurrent use.
type Handler struct {
	cfg Config
	// bare sends requests with the credentials that they have. So does anonymous, for those that have
	// none: upstream may cut connections that bring many of them. trusted has the relay's credentials.
	bare, anonymous, trusted *upstream.Server
	lasting                  *lasting
}

// New returns a handler. It opens no connection and starts no goroutine.
func New(cfg Config) (*Handler, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Answered == nil {
		cfg.Answered = func(*http.Request, int) {}
	}
	h := &Handler{cfg: cfg, lasting: newLasting()}
	var err error
	if h.bare, err = upstream.Open(rest.AnonymousClientConfig(cfg.Upstream), connectWithin); err != nil {
		return nil, err
	}
	if h.anonymous, err = upstream.Open(rest.AnonymousClientConfig(cfg.Upstream), connectWithin); err != nil {
		return nil, err
	}
	own := cfg.Upstream
	if cfg.FrontProxy != nil {
		own = rest.AnonymousClientConfig(own)
		own.CertFile, own.KeyFile = cfg.FrontProxy.CertFile, cfg.FrontProxy.KeyFile
	} else if own.Impersonate.UserName != "" {
		return nil, fmt.Errorf("the relay cannot run as %q (impersonation): a request names one user, and that is the caller",
			own.Impersonate.UserName)
	}
	h.trusted, err = upstream.Open(own, connectWithin)
	return h, err
}

// CloseIdle closes the connections to upstream that no request uses.
func (h *Handler) CloseIdle() {
	for _, s := range []*upstream.Server{h.bare, h.anonymous, h.trusted} {
		s.CloseIdle()
	}
}

// ServeHTTP passes a request on, and the answer back. It ends with the client, and panics with
// http.ErrAbortHandler where the answer of upstream ends early. A request that upstream did not answer
// is 503, with Retry-After unless it may have been carried out. A connection that has switched to another
// protocol lasts until one side or the request's context ends.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.pass(w, r, &detour{}) }

// detour is what Documents does on the way.
type detour struct {
	// request changes a request before it is sent, and answer the answer; nil: neither.
	request func(http.Header)
	answer  func(*http.Response)
	// instead answers a request that upstream did not answer, and reports whether it has; nil: no.
	instead func(http.ResponseWriter) bool
}

func (h *Handler) pass(w http.ResponseWriter, r *http.Request, d *detour) {
	caller, err := h.caller(r)
	if err != nil {
		refusal.Write(w, err)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	r = r.WithContext(ctx)
	until, err := h.lasting.last(r, cancel)
	if err != nil {
		refusal.Write(w, err)
		return
	}
	defer h.lasting.end(until)
	e := upstream.Exchange{
		Rewrite: func(p *httputil.ProxyRequest) {
			forwarded(p)
			if caller != nil {
				removeToken(p.Out)
				keepSwitches(p.Out.Header)
			}
			if d.request != nil {
				d.request(p.Out.Header)
			}
		},
		Answer: func(resp *http.Response) error {
			if len(resp.Trailer) > 0 && r.ProtoMajor == 1 {
				resp.Header.Del("Content-Length") // HTTP/1.1 has trailers only behind chunks
			}
			h.cfg.Answered(r, resp.StatusCode)
			until.answer(resp)
			if d.answer != nil {
				d.answer(resp)
			}
			return nil
		},
		Failed: func(w http.ResponseWriter, r *http.Request, err error) {
			if d.instead != nil && d.instead(w) {
				return
			}
			level := slog.LevelWarn
			if _, is := errors.AsType[*upstream.BodyError](err); is {
				level = slog.LevelDebug // it is not upstream's
			}
			h.cfg.Logger.LogAttrs(r.Context(), level, "upstream did not answer", slog.String("method", r.Method),
				slog.String("path", r.URL.Path), slog.Any("error", err))
			refusal.Write(w, upstream.Refusal("gapless relay", err))
		},
		Logger: h.cfg.Logger,
	}
	switch {
	case caller != nil:
		e.Through = h.as(caller)
		h.trusted.Pass(w, r, e)
	case r.Header.Get("Authorization") == "" && r.Header.Get("Sec-Websocket-Protocol") == "":
		h.anonymous.Pass(w, r, e)
	default:
		h.bare.Pass(w, r, e)
	}
}

// caller returns who sent a request if the relay must say it to upstream; nil: the request says it, or
// nobody did. The error refuses the request.
func (h *Handler) caller(r *http.Request) (user.Info, error) {
	if err := auth.RefuseClaims(r.Header); err != nil {
		return nil, err
	}
	if err := checkConnection(r.Header); err != nil {
		return nil, err
	}
	caller, err := h.cfg.Certificate(r)
	if err != nil || caller == nil {
		return nil, err
	}
	if authn.Impersonates(r.Header) {
		return nil, refused(caller,
			"a client certificate cannot be used with Impersonate-* headers through this relay, which has to name the caller "+
				"itself: use a bearer token, or connect to the API server")
	}
	return caller, checkUser(caller)
}

// as returns what sends requests as a user.
func (h *Handler) as(u user.Info) http.RoundTripper {
	if h.cfg.FrontProxy != nil {
		return transport.NewAuthProxyRoundTripper(u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(), h.trusted)
	}
	return transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{
		UserName: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra(),
	}, h.trusted)
}

// forwarded leaves the headers about earlier proxies as they are, and adds the client's address to
// those of X-Forwarded-For, which upstream writes to its audit log.
func forwarded(p *httputil.ProxyRequest) {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, has := p.In.Header[name]; has {
			p.Out.Header[name] = slices.Clone(values)
		}
	}
	if address, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		const name = "X-Forwarded-For"
		p.Out.Header.Set(name, strings.Join(append(p.Out.Header[name], address), ", "))
	}
}
