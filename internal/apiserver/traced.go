package apiserver

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/tracing"
)

// traced is what is known of a request whose span begins.
type traced struct {
	route  *route.Route
	caller user.Info // nil: that is not known
	began  time.Time
}

// traced begins the span of a request whose caller is known, if it is sampled. What serves the request uses the one that
// it returns. The span ends with handle: that of a watch when the watch is open, since it may last for hours.
func (s *Server) traced(rec *recorder, r *http.Request, of traced) *http.Request {
	if s.cfg.Tracing == nil || of.caller == nil {
		return r
	}
	ctx, span := s.cfg.Tracing.Begin(r.Context(), tracing.Request{
		HTTP: r, Name: spanName(r.Method, of.route), AuditID: rec.Header().Get("Audit-Id"), Caller: of.caller, Began: of.began,
	})
	rec.span = span
	return r.WithContext(ctx)
}

// endSpan ends the span of a request, if it has one.
func (r *recorder) endSpan() {
	r.span.Answered(r.code)
	r.span.End(nil)
}

// spanName is the name of a request's span: the form of its path, and not the path, so that there are few (apiserver
// endpoints/filters/traces.go getSpanNameFromRequestInfo).
func spanName(method string, rt *route.Route) string {
	r := rt.Resource
	if r == nil {
		return method
	}
	name := method + " /api/" + r.Version
	if r.Group != "" {
		name = method + " /apis/" + r.Group + "/" + r.Version
	}
	if rt.Namespace != "" {
		name += "/namespaces/{:namespace}"
	}
	name += "/" + r.Plural
	if rt.Name != "" {
		name += "/{:name}"
	}
	if rt.Subresource != "" {
		name += "/" + rt.Subresource
	}
	return name
}
