package pass

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

// cutAfter is how long, when the relay stops, an event may take that is being sent, and a request that lasts
// and is no watch.
const cutAfter = 500 * time.Millisecond

var errDraining = errors.New("the relay is stopping")

// lasting is the requests that nobody but their clients ends: watches, logs that are followed, and what
// passes through proxy paths. Connections that have switched protocols are not among them.
type lasting struct {
	// mu guards what follows.
	mu      sync.Mutex
	stops   bool
	open    map[*ending]struct{}
	nothing chan struct{} // closed when the relay stops and none is open
}

func newLasting() *lasting {
	return &lasting{open: map[*ending]struct{}{}, nothing: make(chan struct{})}
}

// begin counts a request; end must be called. Errors: 503 while the relay stops.
func (l *lasting) begin(e *ending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stops {
		return wire.Unavailable("gapless relay: it is shutting down", time.Second)
	}
	l.open[e] = struct{}{}
	return nil
}

// end ends what last has begun.
func (l *lasting) end(e *ending) {
	if e == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, e)
	if l.stops && len(l.open) == 0 {
		close(l.nothing)
	}
}

// stop refuses new requests, and returns those that are open.
func (l *lasting) stop() []*ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = true
	if len(l.open) == 0 {
		close(l.nothing)
	}
	return slices.Collect(maps.Keys(l.open))
}

// Drain ends watches behind the event that is being sent, so that their clients resume elsewhere, refuses
// new ones with 503, and cuts other requests off that would last: within half a second. It does not wait:
// Wait does. It is called once.
func (h *Handler) Drain() {
	for _, e := range h.lasting.stop() {
		e.end()
	}
}

// Wait blocks until the requests that Drain ends have ended, or returns ctx's cause.
func (h *Handler) Wait(ctx context.Context) error {
	select {
	case <-h.lasting.nothing:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Lasts reports whether a request lasts until its client ends it, and whether it is a watch.
func Lasts(r *http.Request) (does, watches bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	at := map[string]int{"api": 2, "apis": 3}[parts[0]] // of what is behind the version
	if at == 0 || len(parts) <= at || r.Header.Get("Upgrade") != "" {
		return false, false
	}
	query, _ := url.ParseQuery(r.URL.RawQuery) // what Go cannot parse is not among the values
	switch {
	case r.Method == http.MethodGet && (parts[at] == "watch" || isSet(query, "watch")):
		return true, true
	case r.Method == http.MethodGet && parts[len(parts)-1] == "log" && isSet(query, "follow"):
		return true, false
	}
	return slices.Contains(parts[at:], "proxy"), false
}

// isSet reads a boolean as upstream does (apimachinery runtime Convert_Slice_string_To_bool).
func isSet(query url.Values, name string) bool {
	values, has := query[name]
	return has && !slices.Contains([]string{"", "0"}, values[0]) && !strings.EqualFold(values[0], "false")
}

// ending is a request that ends when the relay stops: the answer of a watch between two events.
type ending struct {
	io.ReadCloser // of a watch

	cancel  context.CancelCauseFunc
	watches bool

	// mu guards what follows.
	mu    sync.Mutex
	stops bool
	over  bool   // the last event has passed
	at    events // nil: it is no watch, or not known
}

// last counts a request if it lasts, and ends it by cancel when the relay stops; nil: it does not last.
// Errors: 503 while the relay stops.
func (l *lasting) last(r *http.Request, cancel context.CancelCauseFunc) (*ending, error) {
	does, watches := Lasts(r)
	if !does {
		return nil, nil //nolint:nilnil // the documentation says so
	}
	e := &ending{cancel: cancel, watches: watches}
	return e, l.begin(e)
}

// answer follows the answer of a watch.
func (e *ending) answer(resp *http.Response) {
	if e == nil || !e.watches {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ReadCloser, e.at = resp.Body, formOf(resp.StatusCode, resp.Header).events()
	resp.Body = e
}

// end ends the request, a watch at once if no event is being sent.
func (e *ending) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stops = true
	if e.at != nil && e.at.between() {
		e.cancel(errDraining)
		return
	}
	time.AfterFunc(cutAfter, func() { e.cancel(errDraining) }) // of a request that may have ended
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (int, error) {
	if e.ended() {
		return 0, io.EOF
	}
	n, err := e.ReadCloser.Read(p)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		return n, err
	}
	whole := lastEnd(e.at, p[:n])
	if !e.stops {
		return n, err
	}
	switch {
	case whole > 0: // what follows is the beginning of another event
		e.over = true
		return whole, nil
	case n == 0 && e.at.between():
		return 0, io.EOF
	}
	return n, err
}

func (e *ending) ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over || e.stops && e.at != nil && e.at.between()
}
