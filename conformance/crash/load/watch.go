package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

// away is the longest time that a watcher stays away now and then, so that what
// it needs next may be compacted.
const away = time.Second

// watch is one watcher: it lists once, and resumes from the last resourceVersion
// it saw for as long as the server lets it.
func (l *Load) watch(ctx context.Context, of *record.Watch, random *rand.Rand, c *program.Client) {
	w := &watcher{Watch: of}
	for ctx.Err() == nil {
		before := w.Last()
		if before != 0 && random.IntN(40) == 0 && !wait(ctx, time.Duration(random.Int64N(int64(away)))) {
			return
		}
		switch {
		case before != 0:
			l.resume(ctx, w, random, c)
		case random.IntN(2) == 0:
			l.streamList(ctx, w, c)
		default:
			l.list(ctx, w, c)
		}
		if w.Last() == before && !wait(ctx, retry) {
			return
		}
	}
}

// watcher is one watcher, over all its streams.
type watcher struct {
	*record.Watch

	ended time.Time // when the last stream ended without an event that says why; zero: it did not
	at    string    // the URL of its server
}

func (l *Load) list(ctx context.Context, w *watcher, c *program.Client) {
	floor := l.record.Highest()
	answer := c.Do(ctx, http.MethodGet, pathOf(w.Scope), nil)
	if answer.Code != http.StatusOK {
		l.unexpected("list of "+w.Name, answer)
		return
	}
	var list wire
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		l.record.Violation("list of %s: %v", w.Name, err)
		return
	}
	if list.rv() < floor {
		l.record.Violation("list of %s is at %d, and %d had been given", w.Name, list.rv(), floor)
	}
	w.Listed(list.rv(), list.versions(w.Scope.Resource))
}

// streamList lists by a watch with initial events, and continues to read it.
func (l *Load) streamList(ctx context.Context, w *watcher, c *program.Client) {
	stream, answer := c.Watch(ctx,
		pathOf(w.Scope)+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	if stream == nil {
		l.unexpected("streaming list of "+w.Name, answer)
		return
	}
	defer stream.Close()
	w.Begin(stream.At)
	var items []record.Version
	for {
		kind, object, err := next(stream)
		switch {
		case err != nil:
			return
		case kind == "ADDED":
			items = append(items, object.version(w.Scope.Resource))
		case kind == "BOOKMARK" && object.Metadata.Annotations["k8s.io/initial-events-end"] == "true":
			w.Listed(object.rv(), items)
			l.follow(w, stream)
			return
		case kind == "ERROR":
			return
		default:
			l.record.Violation("streaming list of %s: %s among the initial events", w.Name, kind)
			return
		}
	}
}

// resume watches from where the watcher is.
func (l *Load) resume(ctx context.Context, w *watcher, random *rand.Rand, c *program.Client) {
	path := fmt.Sprintf("%s?watch=1&allowWatchBookmarks=true&resourceVersion=%d", pathOf(w.Scope), w.Last())
	if random.IntN(4) == 0 {
		path += fmt.Sprintf("&timeoutSeconds=%d", 1+random.IntN(3))
	}
	stream, answer := c.Watch(ctx, path)
	if stream == nil {
		if answer.Code == http.StatusGone {
			w.Gap(answer.At, answer.Status().Message)
			return
		}
		l.unexpected("watch of "+w.Name, answer)
		return
	}
	defer stream.Close()
	w.Begin(stream.At)
	l.follow(w, stream)
}

// follow reads a stream to its end.
func (l *Load) follow(w *watcher, stream *program.Stream) {
	for {
		kind, object, err := next(stream)
		if err != nil {
			if w.ended.IsZero() {
				w.ended, w.at = time.Now(), stream.At
			}
			return
		}
		l.goesOn(w, stream)
		switch kind {
		case "ADDED", "MODIFIED", "DELETED":
			w.Event(kind, object.version(w.Scope.Resource))
		case "BOOKMARK":
			w.Bookmark(object.rv())
		case "ERROR":
			if object.Code == http.StatusGone {
				w.Gap(stream.At, object.Message)
			} else if object.Code < 500 {
				l.record.Violation("watch of %s ends with %d %s: %s", w.Name, object.Code, object.Reason, object.Message)
			}
			return
		default:
			l.record.Violation("watch of %s: an event of type %q", w.Name, kind)
			return
		}
	}
}

// goesOn tells how long a watcher had no stream.
func (l *Load) goesOn(w *watcher, stream *program.Stream) {
	if several := l.cfg.Several; several != nil && several.WentOn != nil && !w.ended.IsZero() {
		several.WentOn(Interruption{From: w.at, To: stream.At, Ended: w.ended, Took: time.Since(w.ended)})
	}
	w.ended = time.Time{}
}

func next(stream *program.Stream) (kind string, object wire, err error) {
	e, err := stream.Next()
	if err != nil {
		return "", wire{}, err
	}
	err = json.Unmarshal(e.Object, &object)
	return e.Type, object, err
}

// unexpected notes a refusal; that there is no answer, or none for now, is what
// happens to a server that is killed.
func (l *Load) unexpected(what string, a program.Answer) {
	tooLarge := a.Code == http.StatusGatewayTimeout && a.Status().Reason == "Timeout" && l.cfg.Several == nil
	if a.Code != 0 && a.Code != http.StatusTooManyRequests && (a.Code < 500 || tooLarge) {
		l.record.Violation("%s: %s", what, a)
	}
}
