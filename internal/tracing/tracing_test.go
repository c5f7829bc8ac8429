package tracing_test

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/tracing/tracetest"
)

// run runs a provider of a file, and returns what ends it and waits for it.
func run(t *testing.T, file string) (p *tracing.Provider, stop func()) {
	t.Helper()
	cfg, err := tracing.Read(file)
	if err != nil {
		t.Fatalf("read the configuration: %v", err)
	}
	p = tracing.New(cfg, "gapless", "test", slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }() // ends with stop
	return p, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

// request is one to a path, with headers "name: value".
func request(t *testing.T, path string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server"+path, http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

const (
	named  = "0af7651916cd43dd8448eb211c80319c"
	parent = "traceparent: 00-" + named + "-b7ad6b7169203331-01"
)

func TestOnlyPrivilegedCallersContinueTheirTraces(t *testing.T) {
	for _, c := range []struct {
		name       string
		caller     user.Info
		perMillion int
		continues  bool
		recorded   bool
	}{
		{"an administrator", &user.DefaultInfo{Groups: []string{user.SystemPrivilegedGroup}}, 0, true, true},
		{"who monitors", &user.DefaultInfo{Groups: []string{user.MonitoringGroup}}, 0, true, true},
		{"anybody, sampled", &user.DefaultInfo{Groups: []string{user.AllAuthenticated}}, 1e6, false, true},
		{"anybody, not sampled", &user.DefaultInfo{Groups: []string{user.AllAuthenticated}}, 0, false, false},
		{"nobody", nil, 1e6, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			collector := tracetest.Start(t)
			p, stop := run(t, collector.File(t, c.perMillion))
			var spans []*tracev1.Span
			for len(spans) == 0 { // what ends before Run has begun is not sent
				_, span := p.Begin(t.Context(), tracing.Request{
					HTTP: request(t, "/api?x=y", parent, "User-Agent: a\xff"), Name: "GET", Caller: c.caller, AuditID: "an id",
					Began: time.Now(),
				})
				span.Answered(http.StatusServiceUnavailable)
				span.End(nil)
				if !c.recorded {
					break
				}
				runtime.Gosched()
				if err := p.Flush(t.Context()); err != nil {
					t.Fatalf("flush: %v", err)
				}
				spans = collector.Spans()
			}
			stop()
			if !c.recorded {
				if spans = collector.Spans(); len(spans) > 0 {
					t.Errorf("%v", spans)
				}
				return
			}
			s := spans[0]
			trace := hex.EncodeToString(s.GetTraceId())
			linked := slices.ContainsFunc(s.GetLinks(), func(l *tracev1.Span_Link) bool {
				return hex.EncodeToString(l.GetTraceId()) == named
			})
			if (trace == named) != c.continues || linked == c.continues {
				t.Errorf("trace %s, links %v", trace, s.GetLinks())
			}
			for key, want := range map[string]string{
				"http.target": "/api?x=y", "audit-id": "an id", "http.response.status_code": "503", "http.request.method": "GET",
				"user_agent.original": "a\uFFFD", // anything but UTF-8 would lose all spans that are sent with it
			} {
				if got := tracetest.Value(s, key); got != want {
					t.Errorf("%s is %q, want %q", key, got, want)
				}
			}
			if s.GetStatus().GetCode() != tracev1.Status_STATUS_CODE_ERROR {
				t.Errorf("status %v", s.GetStatus())
			}
		})
	}
}

func TestAnotherServerLearnsOfTheTrace(t *testing.T) {
	collector := tracetest.Start(t)
	p, stop := run(t, collector.File(t, 1e6))
	defer stop()
	ctx, span := p.Begin(t.Context(), tracing.Request{HTTP: request(t, "/"), Name: "GET"})
	defer span.End(nil)
	for _, c := range []struct {
		name, given string
		removes     bool
		own         bool
	}{
		{"nothing is named", "", false, true},
		{"the caller's", parent, false, false},
		{"the caller's, which is removed", parent, true, true},
	} {
		h := request(t, "/").Header
		if name, value, is := strings.Cut(c.given, ": "); is {
			h.Set(name, value)
		}
		if c.removes {
			tracing.Remove(ctx, h)
		}
		_, client := tracing.Client(ctx, http.MethodPost, "there:443", h)
		client.End(errors.New("it is away"))
		if got := h.Get("traceparent"); got == "" || strings.Contains(got, named) == c.own {
			t.Errorf("%s: traceparent %q", c.name, got)
		}
	}
	off := request(t, "/", parent).Header
	tracing.Remove(t.Context(), off)
	if _, none := tracing.Client(t.Context(), http.MethodPost, "there:443", off); none != (tracing.Span{}) ||
		off.Get("traceparent") == "" {
		t.Errorf("without a span the header is %q", off.Get("traceparent"))
	}
}

// TestACollectorThatIsAwayCostsBoundedMemory: it accepts connections, and answers nothing.
func TestACollectorThatIsAwayCostsBoundedMemory(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p, stop := run(t, tracetest.File(t, listener.Addr().String(), 1e6))
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	long := "/" + strings.Repeat("x", 100<<10)
	for range 4_000 { // 400 MB of paths
		_, span := p.Begin(t.Context(), tracing.Request{HTTP: request(t, long), Name: "GET"})
		span.End(nil)
	}
	if now := live(); now > before+64<<20 {
		t.Errorf("%d MiB are live, %d before", now>>20, before>>20)
	}
	stop()
}

func TestWithoutAConfigurationNothingIsRecorded(t *testing.T) {
	p := tracing.New(nil, "gapless", "test", nil)
	ctx, span := p.Begin(t.Context(), tracing.Request{HTTP: request(t, "/", parent), Name: "GET"})
	within, part := tracing.Start(ctx, "part")
	if p != nil || span != (tracing.Span{}) || part != (tracing.Span{}) || within != ctx {
		t.Errorf("%v, %v, %v", p, span, part)
	}
	part.Set("a", "b")
	part.Answered(http.StatusOK)
	part.End(errors.New("x"))
	if err := p.Run(t.Context()); err != nil {
		t.Errorf("run: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := tracing.Start(ctx, "part")
		_, more := tracing.Start(ctx, "more")
		more.End(nil)
		span.End(nil)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
