package front

import (
	"net/http"
	"time"

	"github.com/gapless-io/gapless/internal/tracing"
)

// traced begins the span of a request that is passed on, if it is sampled, and returns what ends it. Of its caller only
// a certificate says something here, as which the trace that it names is taken.
func (f *Front) traced(rec *firstCode, req *http.Request) (of *http.Request, end func()) {
	if f.cfg.Tracing == nil {
		return req, func() {}
	}
	caller, err := f.cfg.Access.Certificate(req)
	if err != nil {
		caller = nil // it is refused
	}
	ctx, span := f.cfg.Tracing.Begin(req.Context(), tracing.Request{
		HTTP: req, Name: req.Method + " passed on", AuditID: req.Header.Get("Audit-Id"), Caller: caller, Began: time.Now(),
	})
	return req.WithContext(ctx), func() {
		span.Answered(rec.code)
		span.End(nil)
	}
}
