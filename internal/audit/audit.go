// Package audit records who did what: an event for each stage of the requests that a policy
// selects, in upstream's format, in a file.
//
// A [Policy] says which requests are recorded, and how much of them. A [Log] writes events to
// its file, which it rotates. A [Request] is one request that is recorded. Policies, events
// and the context of a request are those of k8s.io/apiserver/pkg/audit: what calls
// audit.AddAuditAnnotation with the context of a request adds to its event.
//
// Files are rotated here, and not by the library that upstream uses, because that one leaves a
// goroutine behind that nothing ends, and half a line after a full disk.
//
// request.go has what an event contains, file.go what a full disk does to it; docs/audit.md.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// The modes, formats and defaults of upstream (apiserver server/options/audit.go).
const (
	// ModeBlocking writes an event before the request goes on, and goes on if that fails.
	ModeBlocking = "blocking"
	// ModeStrict is ModeBlocking, but a request whose first event cannot be written fails.
	ModeStrict = "blocking-strict"
	// ModeBatch writes events later, and drops them when too many wait.
	ModeBatch = "batch"

	// FormatJSON is a JSON object per line, FormatLegacy a line of text.
	FormatJSON   = "json"
	FormatLegacy = "legacy"

	defaultMaxSizeMB    = 100
	defaultMaxBackups   = 100
	defaultMaxAgeDays   = 366
	defaultBuffer       = 10_000
	defaultMaxEventSize = 100 << 10
)

// Unlimited is a limit of Options that there is not.
const Unlimited = -1

// batchBytes bounds the events that wait in ModeBatch, besides their number: upstream bounds
// only that, and 10 000 events may have bodies of 3 MiB each.
const batchBytes = 64 << 20

// probesWaiting and probesBytes bound the events of health checks that wait for the file: those of
// some minutes.
const (
	probesWaiting = 1000
	probesBytes   = 1 << 20
)

// stallAfter is how long an event may take to be written before requests that wait for that count
// as not served, as for a write of an object (revlog).
const stallAfter = 3 * time.Second

// unhealthyFor is how long the health check fails after an event that was not written.
const unhealthyFor = 10 * time.Second

// Options say where the events go. Path is required; zeros are upstream's defaults.
type Options struct {
	// Path is the file; "-" means Stdout.
	Path   string
	Stdout io.Writer
	// MaxSizeMB, MaxBackups and MaxAgeDays are when the file is rotated, and how long rotated
	// files are kept; negative: never, and forever. Compress compresses rotated files.
	MaxSizeMB, MaxBackups, MaxAgeDays int
	Compress                          bool
	Format, Mode                      string
	// BatchBuffer is how many events may wait in ModeBatch.
	BatchBuffer int
	// Truncate removes the bodies of events that are larger than MaxEventBytes, and drops
	// those that are larger even then.
	Truncate      bool
	MaxEventBytes int64
	Logger        *slog.Logger
}

// WithDefaults sets defaults. Its errors name the flags of the program.
func (o Options) WithDefaults() (Options, error) {
	o.MaxSizeMB = cmp.Or(o.MaxSizeMB, defaultMaxSizeMB)
	o.MaxBackups = cmp.Or(o.MaxBackups, defaultMaxBackups)
	o.MaxAgeDays = cmp.Or(o.MaxAgeDays, defaultMaxAgeDays)
	o.Format, o.Mode = cmp.Or(o.Format, FormatJSON), cmp.Or(o.Mode, ModeBlocking)
	o.BatchBuffer = cmp.Or(o.BatchBuffer, defaultBuffer)
	o.MaxEventBytes = cmp.Or(o.MaxEventBytes, defaultMaxEventSize)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if formats := []string{FormatJSON, FormatLegacy}; !slices.Contains(formats, o.Format) {
		return o, fmt.Errorf("audit log format %q (--audit-log-format): want %s", o.Format, strings.Join(formats, " or "))
	}
	if modes := []string{ModeBlocking, ModeStrict, ModeBatch}; !slices.Contains(modes, o.Mode) {
		return o, fmt.Errorf("audit log mode %q (--audit-log-mode): want %s", o.Mode, strings.Join(modes, ", "))
	}
	if o.BatchBuffer < 0 {
		return o, fmt.Errorf("an audit log buffer of %d events (--audit-log-batch-buffer-size): want a positive number",
			o.BatchBuffer)
	}
	if o.MaxEventBytes < 0 {
		return o, fmt.Errorf("audit events of at most %d bytes (--audit-log-truncate-max-event-size): want a positive number",
			o.MaxEventBytes)
	}
	return o, nil
}

// Log writes the events of requests. It is safe for concurrent use, and a
// prometheus.Collector.
type Log struct {
	policy  *Policy
	o       Options
	to      sink
	encoder runtime.Encoder
	paths   request.RequestInfoFactory
	queue   *queue // what Run writes: of ModeBatch all, of the others the events of health checks
	counts  counts

	failed   atomic.Int64 // when an event was not written last, Unix nanoseconds
	reported atomic.Int64 // when that was logged last
}

// sink is where lines go.
type sink interface {
	// write appends a line, all of it or nothing.
	write(line []byte) error
	// waits returns for how long the present write has been in progress.
	waits() time.Duration
	// run removes and compresses rotated files until ctx ends.
	run(ctx context.Context)
	close() error
}

// Open opens the file. The caller calls Run and then Close.
func Open(p *Policy, o Options) (*Log, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		policy: p, o: o, encoder: audit.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), counts: newCounts(),
		paths: request.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
		},
	}
	l.queue = newQueue(probesWaiting, probesBytes)
	if o.Mode == ModeBatch {
		l.queue = newQueue(o.BatchBuffer, batchBytes)
	}
	if o.Path == "-" {
		l.to = &plain{clock: clock{made: time.Now()}, out: o.Stdout}
		return l, nil
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("audit log %s: %w", o.Path, err)
	}
	if l.to, err = openFile(path, o); err != nil {
		return nil, err
	}
	return l, nil
}

// Run writes what waits, and looks after rotated files, until ctx ends; then it writes what
// is left.
func (l *Log) Run(ctx context.Context) error {
	tended := make(chan struct{})
	go func() { // ends with ctx, and Run waits for it
		defer close(tended)
		l.to.run(ctx)
	}()
	for line := range l.queue.lines(ctx) {
		if err := l.to.write(line); err != nil {
			l.lost("log", err)
		}
	}
	<-tended
	return nil
}

// Close closes the file. Events are lost from then on, and counted.
func (l *Log) Close() error { return l.to.close() }

// Check is for health: in ModeStrict the server is not ready while events cannot be
// written, since its requests fail, and in ModeBlocking too while they wait for that. Otherwise it
// serves, and the metrics tell.
func (l *Log) Check() error {
	if waits := l.to.waits(); l.o.Mode != ModeBatch && waits >= stallAfter {
		return fmt.Errorf("an audit event has waited for %v to be written to %s, and requests wait for it (--audit-log-mode %s)",
			waits.Round(100*time.Millisecond), l.o.Path, l.o.Mode)
	}
	failed := l.failed.Load()
	if l.o.Mode == ModeStrict && failed != 0 && time.Since(time.Unix(0, failed)) < unhealthyFor {
		return fmt.Errorf(
			"an audit event could not be written to %s in the last %v, and without it requests fail (--audit-log-mode %s): "+
				"make space, or make the file writable",
			l.o.Path, unhealthyFor, ModeStrict)
	}
	return nil
}

// errTooLarge is the reason why a truncated event is dropped.
var errTooLarge = errors.New("the event is too large even without its bodies")

// record writes an event, and reports whether the request may go on. A health check always does:
// whoever asks gets what the checks found, and must not take a full disk, or a pipe that
// nobody reads, for the end of the server.
func (l *Log) record(event *auditinternal.Event, probe bool) bool {
	l.counts.events.Inc()
	line, err := l.encode(event)
	if err == nil && l.o.Truncate && int64(len(line)) > l.o.MaxEventBytes {
		if line, err = l.encode(truncated(event)); err == nil && int64(len(line)) > l.o.MaxEventBytes {
			l.lost("truncate", errTooLarge)
			return true // as upstream
		}
	}
	if err != nil {
		l.lost("log", err)
		return probe || l.o.Mode != ModeStrict
	}
	if probe || l.o.Mode == ModeBatch {
		if !l.queue.add(line) {
			l.lost("buffered", errors.New("too many events wait for the disk"))
		}
		return true
	}
	if err := l.to.write(line); err != nil {
		l.lost("log", err)
		return l.o.Mode != ModeStrict
	}
	return true
}

// encode returns the line of an event. Both formats quote what clients send: a line is an
// event, whatever is in it.
func (l *Log) encode(event *auditinternal.Event) ([]byte, error) {
	if l.o.Format == FormatLegacy {
		return []byte(audit.EventString(event) + "\n"), nil
	}
	line, err := runtime.Encode(l.encoder, event)
	if err != nil {
		return nil, fmt.Errorf("encode an audit event: %w", err)
	}
	return line, nil
}

// truncated returns an event without its bodies (apiserver plugin/pkg/audit/truncate).
func truncated(event *auditinternal.Event) *auditinternal.Event {
	short := *event
	short.RequestObject, short.ResponseObject = nil, nil
	short.Annotations = map[string]string{}
	maps.Copy(short.Annotations, event.Annotations)
	short.Annotations["audit.k8s.io/truncated"] = "true"
	return &short
}

// lost counts an event that was not written, and logs once a minute that there are some.
func (l *Log) lost(plugin string, err error) {
	l.counts.errors.WithLabelValues(plugin).Inc()
	now := time.Now()
	l.failed.Store(now.UnixNano())
	last := l.reported.Load()
	if now.Sub(time.Unix(0, last)) < time.Minute || !l.reported.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	l.o.Logger.Error("audit events are lost",
		slog.String("path", l.o.Path), slog.String("plugin", plugin), slog.Any("error", err))
}

// counts are the metrics, with upstream's names (apiserver pkg/audit/metrics.go).
type counts struct {
	events, rejected prometheus.Counter
	errors, levels   *prometheus.CounterVec
}

func newCounts() counts {
	c := counts{
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_event_total", Help: "Audit events made.",
		}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_audit_requests_rejected_total",
			Help: "Requests refused because their first audit event could not be written.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_audit_error_total",
			Help: "Audit events that were lost: log could not write them, truncate found them too large, buffered had no space.",
		}, []string{"plugin"}),
		levels: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_audit_level_total", Help: "Requests by the level that the audit policy gives them.",
		}, []string{"level"}),
	}
	for _, plugin := range []string{"log", "truncate", "buffered"} {
		c.errors.WithLabelValues(plugin) // so that the series exists before the first event is lost
	}
	return c
}

func (c *counts) all() []prometheus.Collector {
	return []prometheus.Collector{c.events, c.rejected, c.errors, c.levels}
}

// Describe implements prometheus.Collector.
func (l *Log) Describe(out chan<- *prometheus.Desc) {
	for _, c := range l.counts.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (l *Log) Collect(out chan<- prometheus.Metric) {
	for _, c := range l.counts.all() {
		c.Collect(out)
	}
}
