package apiserver

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/apiserver/limit"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// Bodies of largeBody bytes, or largeYAML of YAML, need a processor for about 5 ms,
	// long enough to wait for one.
	largeBody = 64 << 10
	largeYAML = 4 << 10
	// Queries of largeQuery bytes have selectors of some hundred values. No client needs so many
	// for what it does often.
	largeQuery = 16 << 10
)

// kindOf returns which limit a request counts for.
func (s *Server) kindOf(rt route.Route) limit.Kind {
	if rt.Resource != nil && rt.Name != "" && rt.Resource.GR() == leases ||
		rt.Verb == route.Create && rt.Resource.GR() == leases {
		return s.load.Leases
	}
	if rt.Verb.Writes() {
		return s.load.Writing
	}
	if rt.Resource == nil && len(rt.Path) == 1 && rt.Path[0] == "metrics" {
		return s.load.Spare
	}
	return s.load.Reading
}

// leases are how programs say that they are alive, and who leads.
//
//nolint:gochecknoglobals // a constant that Go cannot have
var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// seats returns as how many requests a request counts: a list by its objects, as upstream
// estimates its work (apiserver util/flowcontrol/request/list_work_estimator.go).
func (s *Server) seats(rt route.Route) int {
	if rt.Verb != route.List || s.cfg.Count == nil {
		return 1
	}
	objects := s.cfg.Count(rt.Target)
	if page, err := strconv.Atoi(rt.Query.Get("limit")); err == nil && page > 0 {
		objects = min(objects, page)
	}
	return limit.Seats(objects)
}

// refuseUnread lets a request without a certificate be answered before its body is read.
func refuseUnread(w http.ResponseWriter, r *http.Request) {
	limit.Of(r.Context()).Fault(limit.Anonymous)
	if r.ProtoMajor == 1 && r.Body != http.NoBody {
		w.Header().Set("Connection", "close")
	}
}

// serveLimited serves a request that is not a watch within the limits of one client: how
// many such requests run at once, what their bodies need, and how long each takes.
func (s *Server) serveLimited(w *recorder, r *http.Request, q resolved, user string) error {
	rt := q.Route
	timeout, err := wire.ParseTimeout(rt.Query)
	if err != nil {
		return err
	}
	if timeout <= 0 || timeout > defaultDeadline {
		timeout = defaultDeadline
	}
	if r.URL.Path == backupPath {
		timeout = backupDeadline
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	// A client that neither sends its body nor reads its answer must not stay indefinitely. The
	// body's limit is after the request's, so that it is answered and not cut off.
	ctl, last := http.NewResponseController(w), time.Now().Add(timeout)
	_ = ctl.SetReadDeadline(last.Add(time.Second)) // without support there is no limit
	_ = ctl.SetWriteDeadline(last.Add(answerWithin))
	if rt.Verb.Writes() {
		recorder := &warnings{w: w}
		if rt.Resource != nil {
			recorder.AddWarning("", rt.Resource.Deprecation)
		}
		ctx = warning.WithWarningRecorder(ctx, recorder)
	}
	r = r.WithContext(ctx)
	if r.Body != http.NoBody && r.Method != http.MethodGet && r.Method != http.MethodHead {
		release, err := s.load.Receive(w, r, user)
		if err != nil {
			return err
		}
		defer release()
	}
	costly := needsProcessor(r, rt)
	if costly {
		release, err := s.load.Take(ctx, s.load.Costly, user)
		if err != nil {
			return err
		}
		defer release()
	}
	release, err := s.load.TakeSeats(ctx, s.kindOf(rt), user, s.seats(rt))
	if err != nil {
		return err
	}
	defer release()
	inFlight := s.metrics.InFlight(&rt)
	inFlight.Inc()
	defer inFlight.Dec()
	if costly {
		release, err := s.load.Take(ctx, s.load.Processors, user)
		if err != nil {
			return err
		}
		release = sync.OnceFunc(release)
		defer release()
		if len(r.URL.RawQuery) < largeQuery { // objects are compared with the query's selectors while the list is written
			w.answers = release // others need the processor while the client reads
		}
	}
	if r.URL.Path == swaggerPath {
		return s.serveSwagger(w, r, user)
	}
	if isVersion3(r.URL.Path) {
		return s.serveGroups(w, r, user)
	}
	return s.dispatch(w, r, q)
}

// TakeWriting takes a place for a change that somebody else makes for a user, as one of the changes that are
// under way. The caller calls release, once. Errors: 429, and ctx's cause.
func (s *Server) TakeWriting(ctx context.Context, user string) (release func(), err error) {
	return s.load.Take(ctx, s.load.Writing, user)
}

// TakeWatch is TakeWriting for a watch that somebody else serves.
func (s *Server) TakeWatch(ctx context.Context, user string) (release func(), err error) {
	return s.load.Take(ctx, s.load.Watches, user)
}

// needsProcessor reports whether a request needs a processor for so long that it must wait
// for one: large bodies, YAML, and definitions, whose schemas and rules are compiled; and long
// queries, whose selectors are compared with each object.
func needsProcessor(r *http.Request, rt route.Route) bool {
	size := len(limit.Received(r))
	contentType, err := media.Of(r)
	isYAML := err == nil && contentType == media.YAML
	return len(r.URL.RawQuery) >= largeQuery || size >= largeBody || size >= largeYAML && isYAML || size > 0 && compiles(rt)
}

// compiles reports whether a request changes a definition.
func compiles(rt route.Route) bool {
	definition := rt.Resource != nil && rt.Resource.IsDefinition()
	return definition && rt.Verb != route.Delete && rt.Verb != route.DeleteCollection
}
