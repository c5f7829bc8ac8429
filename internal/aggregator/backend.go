package aggregator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/hook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/upstream"
	"github.com/gapless-io/gapless/internal/wire"
)

// connectWithin is how long a connection to a server behind may take.
const connectWithin = 10 * time.Second

// Backend is a server that serves a version of a group, behind this one. It is safe for concurrent use.
type Backend struct {
	cfg  *Config
	name string // of the APIService
	spec apiregistrationv1.APIServiceSpec
	// available is what the status of the APIService says.
	available bool

	at     *upstream.Server
	broken error         // of a configuration that cannot be used: there is no server then
	places chan struct{} // holds one token for each resource of a namespace that is being deleted
}

// unresolvedError says that a Service has no address.
type unresolvedError struct{ cause error }

// Error implements error.
func (e *unresolvedError) Error() string { return e.cause.Error() }

// newBackend returns the server of an APIService that names a Service.
func newBackend(cfg *Config, of *apiregistrationv1.APIService) *Backend {
	b := (&Backend{cfg: cfg, places: make(chan struct{}, deletions)}).withStatus(of)
	s := b.reference()
	host := s.Name + "." + s.Namespace + ".svc"
	b.at, b.broken = upstream.Open(&rest.Config{
		Host: "https://" + net.JoinHostPort(host, strconv.Itoa(int(s.Port))),
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: host, Insecure: b.spec.InsecureSkipTLSVerify, CAData: b.spec.CABundle,
			CertFile: cfg.CertFile, KeyFile: cfg.KeyFile,
		},
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }, //nolint:nilnil // nil is no proxy
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := hook.Resolve(cfg.Cluster, &s)
			if err != nil {
				return nil, &unresolvedError{err}
			}
			return (&net.Dialer{Timeout: connectWithin}).DialContext(ctx, network, address)
		},
	}, connectWithin)
	if b.broken != nil {
		b.at = nil
	}
	return b
}

// withStatus returns the same server with the present state of its APIService.
func (b *Backend) withStatus(of *apiregistrationv1.APIService) *Backend {
	out := *b
	out.name, out.spec, out.available = of.Name, of.Spec, false
	for _, c := range of.Status.Conditions {
		if c.Type == apiregistrationv1.Available {
			out.available = c.Status == apiregistrationv1.ConditionTrue
		}
	}
	return &out
}

// serves reports whether connections to the server are also those of another state of its APIService.
func (b *Backend) serves(other *apiregistrationv1.APIService) bool {
	o := (&Backend{}).withStatus(other)
	return o.spec.Service != nil && b.reference() == o.reference() && string(b.spec.CABundle) == string(o.spec.CABundle) &&
		b.spec.InsecureSkipTLSVerify == o.spec.InsecureSkipTLSVerify
}

func (b *Backend) close() {
	if b.at != nil {
		b.at.CloseIdle()
	}
}

// Version returns the group and version that the server serves.
func (b *Backend) Version() schema.GroupVersion {
	return schema.GroupVersion{Group: b.spec.Group, Version: b.spec.Version}
}

func (b *Backend) reference() kinds.ServiceReference {
	s := kinds.ServiceReference{Namespace: b.spec.Service.Namespace, Name: b.spec.Service.Name, Port: 443}
	if b.spec.Service.Port != nil {
		s.Port = *b.spec.Service.Port
	}
	return s
}

func (b *Backend) serviceKey() wire.Key {
	return wire.Key{Namespace: b.spec.Service.Namespace, Name: b.spec.Service.Name}
}

// Request is a request that is passed on.
type Request struct {
	Caller user.Info
	// Answered is called with the code of an answer before it is passed back.
	Answered func(code int)
}

// Serve passes a request on, and the answer back, each part as it comes. It returns with the end of the answer, or with
// the request's context, and panics with http.ErrAbortHandler where either side has left. Errors:
// context.DeadlineExceeded before there was an answer. The others are answered, in upstream's words, as text.
func (b *Backend) Serve(w http.ResponseWriter, r *http.Request, q Request) error {
	if !b.available {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return nil
	}
	if b.at == nil {
		http.Error(w, b.broken.Error(), http.StatusInternalServerError)
		return nil
	}
	if err := canBeNamed(q.Caller); err != nil {
		return err
	}
	var late error
	b.at.Pass(w, r, upstream.Exchange{
		Rewrite: func(p *httputil.ProxyRequest) {
			tracing.Remove(r.Context(), p.Out.Header) // the server behind continues this one's trace
			b.rewrite(p, w.Header().Get("Audit-Id"))
		},
		Through: as(q.Caller, b.at),
		Answer: func(resp *http.Response) error {
			refuseRedirect(resp)
			resp.Header.Del("Audit-Id") // this server has said it
			q.Answered(resp.StatusCode)
			return nil
		},
		Failed: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(r.Context().Err(), context.DeadlineExceeded) {
				late = r.Context().Err()
				return
			}
			b.fail(w, r, err)
		},
		Logger: b.cfg.Logger,
	})
	return late
}

// as returns what sends requests in a user's name.
func as(u user.Info, by http.RoundTripper) http.RoundTripper {
	return transport.NewAuthProxyRoundTripper(u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(), by)
}

// rewrite changes a request to what the server behind is to see. It removes what was said to this server about who
// the caller is: the server behind gets its answer.
func (b *Backend) rewrite(p *httputil.ProxyRequest, auditID string) {
	h := p.Out.Header
	h.Del("Authorization")
	for name := range h {
		if strings.HasPrefix(textproto.CanonicalMIMEHeaderKey(name), "Impersonate-") {
			delete(h, name)
		}
	}
	if auditID != "" {
		h.Set("Audit-Id", auditID)
	}
	keepSwitches(h)
	if before, has := p.In.Header["X-Forwarded-For"]; has {
		h["X-Forwarded-For"] = slices.Clone(before)
	}
	if address, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		h.Set("X-Forwarded-For", strings.Join(append(h["X-Forwarded-For"], address), ", "))
	}
	h.Set("X-Forwarded-Uri", p.In.URL.EscapedPath())
	h.Set("X-Forwarded-Host", p.In.Host)
	h.Set("X-Forwarded-Proto", "https")
	p.Out.Host = ""
}

// Switches reports whether a request wants to continue in a protocol that is passed on: one of those of commands and
// watches.
func Switches(h http.Header) bool {
	offered := h["Upgrade"]
	asks := slices.ContainsFunc(strings.Split(strings.Join(h["Connection"], ","), ","), func(token string) bool {
		return strings.EqualFold(strings.TrimSpace(token), "Upgrade")
	})
	return asks && len(offered) == 1 && (strings.EqualFold(offered[0], "websocket") || strings.EqualFold(offered[0], "SPDY/3.1"))
}

// keepSwitches removes a wish to continue in another protocol than those of Switches. Others, such as h2c, may carry
// further requests, which would name users of the client's choice: they would come over a connection that the server
// behind trusts. A server may ignore the wish.
func keepSwitches(h http.Header) {
	if len(h["Upgrade"]) > 0 && !Switches(h) {
		h.Del("Upgrade")
		h.Del("Connection")
	}
}

// refuseRedirect replaces a redirect by an error (--aggregator-reject-forwarding-redirect): a server behind must not
// send clients, with their credentials, elsewhere.
func refuseRedirect(resp *http.Response) {
	if resp.StatusCode < 300 || resp.StatusCode > 399 || resp.Header.Get("Location") == "" {
		return
	}
	_ = resp.Body.Close() // it is not wanted
	const why = "the backend attempted to redirect this request, which is not permitted"
	resp.StatusCode, resp.Status, resp.Header = http.StatusBadGateway, "", http.Header{}
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(why)), int64(len(why))
}

// fail answers a request that the server behind has not answered.
func (b *Backend) fail(w http.ResponseWriter, r *http.Request, err error) {
	_, early := errors.AsType[*upstream.BodyError](err)
	level := slog.LevelWarn
	if early {
		level = slog.LevelDebug // it is the client's
	}
	b.cfg.Logger.LogAttrs(r.Context(), level, "a server behind did not answer", slog.String("apiservice", b.name),
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	if _, is := errors.AsType[*unresolvedError](err); is {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	http.Error(w, fmt.Sprintf("error trying to reach service: %v", causeOf(err)), http.StatusServiceUnavailable)
}

// canBeNamed returns 403 for a user who cannot be named in headers: servers read a header without the spaces around it,
// so that "admins " would become "admins".
func canBeNamed(u user.Info) error {
	named := append([]string{u.GetName(), u.GetUID()}, u.GetGroups()...)
	for _, values := range u.GetExtra() {
		named = append(named, values...)
	}
	control := func(c rune) bool { return c < ' ' || c == 0x7f }
	for _, text := range named {
		if textproto.TrimString(text) != text || strings.ContainsFunc(text, control) {
			return wire.Forbidden(schema.GroupResource{}, "",
				fmt.Sprintf("user %q is not passed on to the server behind: %q cannot be sent in a header without changing it",
					u.GetName(), text))
		}
	}
	return nil
}

// causeOf returns what has failed of a request, without which server it was about.
func causeOf(err error) error {
	if away, is := errors.AsType[*upstream.UnreachableError](err); is {
		return away.Err
	}
	return err
}
