// Package tracing records spans of requests, and sends them to a collector of OpenTelemetry, as kube-apiserver does with
// --tracing-config-file.
//
// [Read] reads that file. A [Provider] begins a span for each request that is sampled, and sends what has ended; Run does
// so until it ends. [Start] begins a span within one: where the context has none that is recorded it costs one look into
// the context. [Client] begins the span of a request to another server, and tells that server of it.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"
)

const (
	// scope is the name under which spans are recorded.
	scope = "github.com/gapless-io/gapless"
	// longestValue bounds a value of a span, in bytes: the path and the query of a request may be as long as all headers.
	longestValue = 1 << 10
	// mostValues bounds the attributes, the events and the links of a span.
	mostValues = 32
	// endWithin is how long the last spans may take when the server stops.
	endWithin = 2 * time.Second
	// sayEvery is how often it is logged at most that spans cannot be sent.
	sayEvery = time.Minute
)

// The keys of attributes that the server sets: those of upstream's spans, and of OpenTelemetry's semantic conventions.
const (
	keyMethod    = "http.request.method"
	keyTarget    = "http.target"
	keyCode      = "http.response.status_code"
	keyUserAgent = "user_agent.original"
	keyAuditID   = "audit-id"
	keyServer    = "server.address"
)

// Provider records spans. Its methods do nothing where it is nil. It is safe for concurrent use.
type Provider struct {
	cfg    *Configuration
	logger *slog.Logger
	sdk    *sdktrace.TracerProvider
	tracer trace.Tracer
	stop   chan struct{} // closed when nothing is to be sent any more

	sent, lost atomic.Int64 // spans
	said       atomic.Int64 // when it was logged that spans are lost, in Unix nanoseconds
}

// New returns a provider for a configuration, and nil for none. service is the name of the service that spans are of, and
// instance which one. It opens no connection, and starts nothing.
func New(cfg *Configuration, service, instance string, logger *slog.Logger) *Provider {
	if cfg == nil {
		return nil
	}
	sampler := sdktrace.NeverSample()
	if rate := ptr.Deref(cfg.SamplingRatePerMillion, 0); rate > 0 {
		const million = 1e6
		sampler = sdktrace.TraceIDRatioBased(float64(rate) / million)
	}
	p := &Provider{cfg: cfg, logger: logger, stop: make(chan struct{})}
	p.sdk = sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sampler)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", service), attribute.String("service.instance.id", instance))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: longestValue, AttributeCountLimit: mostValues, EventCountLimit: mostValues,
			LinkCountLimit: mostValues, AttributePerEventCountLimit: mostValues, AttributePerLinkCountLimit: mostValues,
		}))
	p.tracer = p.sdk.Tracer(scope)
	return p
}

// Run sends spans until ctx ends, and then those that are left, for up to two seconds. Of what the collector does not take
// up to 2048 spans wait; more are lost. Errors: the configuration cannot be used.
func (p *Provider) Run(ctx context.Context) error {
	if p == nil {
		return nil
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithInsecure()}
	if p.cfg.Endpoint != nil {
		options = append(options, otlptracegrpc.WithEndpoint(*p.cfg.Endpoint))
	}
	sender, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return fmt.Errorf("open the exporter of traces: %w", err)
	}
	p.sdk.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(exporter{sender, p}))
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	defer context.AfterFunc(ending, func() { close(p.stop) })() // what is being sent then ends
	if err := p.sdk.Shutdown(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, errStopped) {
		p.logger.WarnContext(ctx, "the last traces were not sent", slog.Any("error", err))
	}
	return nil
}

// Flush sends what has ended. Errors: ctx's cause.
func (p *Provider) Flush(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.sdk.ForceFlush(ctx)
}

// errStopped is why spans are not sent after endWithin.
var errStopped = errors.New("the server has stopped")

// exporter counts the spans that are sent and lost, and ends with the provider.
type exporter struct {
	sdktrace.SpanExporter

	of *Provider
}

// ExportSpans implements sdktrace.SpanExporter.
func (e exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with the call
		select {
		case <-e.of.stop:
			cancel(errStopped)
		case <-done:
		}
	}()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.of.sent.Add(int64(len(spans)))
		return nil
	}
	e.of.lost.Add(int64(len(spans)))
	last, now := e.of.said.Load(), time.Now().UnixNano()
	if now-last >= int64(sayEvery) && e.of.said.CompareAndSwap(last, now) {
		e.of.logger.LogAttrs(ctx, slog.LevelWarn, "traces cannot be sent", slog.Int("spans", len(spans)), slog.Any("error", err))
	}
	return nil // it is said: the library would print it
}

// Request is a request to this server.
type Request struct {
	HTTP *http.Request
	// Name is the method and the form of the path.
	Name    string
	AuditID string
	// Caller is who has sent it, nil: that is not known.
	Caller user.Info
	Began  time.Time
}

// Begin begins the span of a request. Within the trace that the caller has named it is only for members of system:masters
// and system:monitoring: others could have every request recorded. Their own trace gets a link (apiserver
// endpoints/filters/traces.go).
func (p *Provider) Begin(ctx context.Context, r Request) (context.Context, Span) {
	if p == nil {
		return ctx, Span{}
	}
	named := propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.HTTP.Header))
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.Began)}
	switch {
	case isTrusted(r.Caller):
		ctx = named
	case trace.SpanContextFromContext(named).IsValid():
		options = append(options, trace.WithLinks(trace.LinkFromContext(named)))
	}
	ctx, span := p.tracer.Start(ctx, r.Name, options...)
	if !span.IsRecording() {
		return ctx, Span{}
	}
	span.SetAttributes(attribute.String(keyMethod, r.HTTP.Method), attribute.String(keyTarget, cut(r.HTTP.URL.RequestURI())),
		attribute.String(keyUserAgent, cut(r.HTTP.UserAgent())), attribute.String(keyAuditID, cut(r.AuditID)))
	return ctx, Span{span}
}

// cut returns a text, or as much of it as a span keeps, without what it is a part of. The protocol has UTF-8 only:
// anything else would lose all spans that are sent with this one.
func cut(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), longestValue)], "\uFFFD"))
}

func isTrusted(u user.Info) bool {
	return u != nil && slices.ContainsFunc(u.GetGroups(), func(group string) bool {
		return group == user.SystemPrivilegedGroup || group == user.MonitoringGroup
	})
}

// Span is a part of a request that is recorded; the zero value records nothing.
type Span struct{ of trace.Span }

// Start begins a span within that of ctx, if that is recorded. The caller ends it.
func Start(ctx context.Context, name string) (context.Context, Span) {
	within := trace.SpanFromContext(ctx)
	if !within.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := within.TracerProvider().Tracer(scope).Start(ctx, name)
	return ctx, Span{span}
}

// Client is Start for a request to another server, whose host is given, and tells that server of the span in header. A
// trace that header names already, and is another one, stays: it is for the server that the request goes to.
func Client(ctx context.Context, method, host string, header http.Header) (context.Context, Span) {
	within := trace.SpanFromContext(ctx)
	if !within.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := within.TracerProvider().Tracer(scope).Start(ctx, "HTTP "+method, trace.WithSpanKind(trace.SpanKindClient))
	span.SetAttributes(attribute.String(keyMethod, method), attribute.String(keyServer, host))
	carried := propagation.HeaderCarrier(header)
	named := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.WithoutCancel(ctx), carried))
	own := span.SpanContext()
	if carried.Get("traceparent") == "" || named.TraceID() == own.TraceID() {
		propagation.TraceContext{}.Inject(ctx, carried)
	}
	return ctx, Span{span}
}

// Remove removes from header the trace that a caller has named, where a span of ctx is recorded, which Client names
// instead.
func Remove(ctx context.Context, header http.Header) {
	if trace.SpanFromContext(ctx).IsRecording() {
		header.Del("Traceparent")
		header.Del("Tracestate")
	}
}

// Set adds an attribute.
func (s Span) Set(key, value string) {
	if s.of != nil {
		s.of.SetAttributes(attribute.String(key, value))
	}
}

// Answered adds the code of an HTTP answer; 5xx is an error.
func (s Span) Answered(code int) {
	if s.of == nil || code == 0 {
		return
	}
	s.of.SetAttributes(attribute.Int(keyCode, code))
	if code >= http.StatusInternalServerError {
		s.of.SetStatus(codes.Error, http.StatusText(code))
	}
}

// End ends the span, with err, if it is not nil, as its error. Only the first call counts.
func (s Span) End(err error) {
	if s.of == nil {
		return
	}
	if err != nil {
		s.of.SetStatus(codes.Error, cut(err.Error()))
	}
	s.of.End()
}

//nolint:gochecknoglobals // descriptions
var (
	sentDesc = prometheus.NewDesc("gapless_tracing_spans_sent_total", "Spans that the collector of traces has taken.", nil, nil)
	lostDesc = prometheus.NewDesc("gapless_tracing_spans_lost_total",
		"Spans that the collector of traces has not taken. Those that found no place to wait are not counted.", nil, nil)
)

// Describe implements prometheus.Collector.
func (p *Provider) Describe(to chan<- *prometheus.Desc) {
	to <- sentDesc
	to <- lostDesc
}

// Collect implements prometheus.Collector.
func (p *Provider) Collect(to chan<- prometheus.Metric) {
	if p == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(sentDesc, prometheus.CounterValue, float64(p.sent.Load()))
	to <- prometheus.MustNewConstMetric(lostDesc, prometheus.CounterValue, float64(p.lost.Load()))
}
