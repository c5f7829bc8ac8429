package informer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
)

// thing is the objects' type in these tests.
type thing struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`
	Value             int `json:"value"`
}

// world is a small API server of one collection: the list-watch protocol of
// server.md 1 to 3 over a map and a log, and every failure that a test asks for.
type world struct {
	mu     sync.Mutex
	rv     int
	uids   int
	things map[string]string // key -> JSON
	log    []logged
	floor  int // watches from below are 410
	wake   chan struct{}

	fault    func(request) fault // nil: none; called for every request
	requests []request
}

type logged struct {
	rv         int
	event, key string
	object     string
}

// request is what a client asked for.
type request struct {
	watch, initial bool
	rv, match      string
	limit          int
	cont           string
	bookmarks      bool
	seconds        int
}

func (r request) String() string {
	kind := "LIST"
	switch {
	case r.initial:
		kind = "STREAM"
	case r.watch:
		kind = "WATCH"
	}
	s := kind + " rv=" + r.rv
	if r.cont != "" {
		s += " continued"
	}
	return s
}

// fault is what goes wrong with one request.
type fault struct {
	delay      time.Duration
	refuse     bool // no connection
	hang       bool // no answer
	status     int  // refused by HTTP
	reason     string
	tooLarge   bool
	retryAfter int

	after       int    // frames before the end, of a stream
	end         string // "eof", "cut", "half", "garbage", "silent", "410", "504", "429", "500"
	noEnd       bool   // no end bookmark
	noBookmarks bool
	repeat      int // begin a watch that many revisions too early
	bad         string
	stale       int // a LIST that many revisions behind
}

var errRefused = fmt.Errorf("dial tcp 127.0.0.1:1: connect: connection refused")

func newWorld() *world {
	return &world{rv: 1000, floor: 1000, things: map[string]string{}, wake: make(chan struct{})}
}

func (w *world) object(name string, uid, rv, value int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Thing","metadata":{"name":%q,"namespace":"default","uid":"u%d","resourceVersion":"%d"},"value":%d}`, name, uid, rv, value)
}

func parse(t testing.TB, object string) *thing {
	t.Helper()
	var o thing
	if err := json.Unmarshal([]byte(object), &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

// put writes an object; a new one gets a new UID. It returns the resource version.
func (w *world) put(name string, value int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	event, uid := "MODIFIED", 0
	if old, is := w.things[name]; is {
		var o thing
		if json.Unmarshal([]byte(old), &o) == nil {
			uid, _ = strconv.Atoi(string(o.UID)[1:])
		}
	} else {
		w.uids++
		event, uid = "ADDED", w.uids
	}
	w.rv++
	w.things[name] = w.object(name, uid, w.rv, value)
	w.appendLocked(event, name, w.things[name])
	return w.rv
}

func (w *world) delete(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old, is := w.things[name]
	if !is {
		return
	}
	var o thing
	if err := json.Unmarshal([]byte(old), &o); err != nil && o.UID == "" { // one that cannot be decoded has one too
		panic(err)
	}
	w.rv++
	delete(w.things, name)
	uid, _ := strconv.Atoi(string(o.UID)[1:])
	w.appendLocked("DELETED", name, w.object(name, uid, w.rv, o.Value))
}

func (w *world) appendLocked(event, key, object string) {
	w.log = append(w.log, logged{w.rv, event, key, object})
	close(w.wake)
	w.wake = make(chan struct{})
}

// tick moves the server's revision without touching the collection.
func (w *world) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rv++
}

// compact forgets all history.
func (w *world) compact() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.floor = w.rv
}

// state is everything by key, as name/uid/rv.
func (w *world) state(t testing.TB) map[string]string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	for name, object := range w.things {
		all[name] = digest(parse(t, object))
	}
	return all
}

func digest(o *thing) string {
	return fmt.Sprintf("%s rv=%s value=%d", o.UID, o.ResourceVersion, o.Value)
}

func cached(i *informer.Informer[*thing]) map[string]string {
	all := map[string]string{}
	for k, o := range i.All() {
		all[k.Name] = digest(o)
	}
	return all
}

func (w *world) seen() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// fail sets what goes wrong from now on.
func (w *world) fail(f func(request) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *world) faultFor(r request) fault {
	w.mu.Lock()
	w.requests = append(w.requests, r)
	f := w.fault
	w.mu.Unlock()
	if f == nil {
		return fault{}
	}
	return f(r)
}

func status(code int, reason, message string, f fault) string {
	details := "{}"
	if f.retryAfter > 0 {
		details = fmt.Sprintf(`{"retryAfterSeconds":%d}`, f.retryAfter)
	}
	if f.tooLarge {
		details = `{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}`
		message = "Timeout: Too large resource version: 9, current: 1"
	}
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d,"details":%s}`, message, reason, code, details)
}

// list answers a LIST: a code and a body.
func (w *world) list(r request, f fault) (code int, body string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	things, rv, start := w.things, w.rv, 0
	if f.stale > 0 && r.rv != "" { // a consistent read is never behind
		things, rv = w.pastLocked(w.rv - f.stale)
	}
	if r.cont != "" {
		var at int
		if _, err := fmt.Sscanf(r.cont, "%d-%d", &at, &start); err != nil {
			return 400, status(400, "BadRequest", "continue", f)
		}
		if at < w.floor {
			return 410, status(410, "Expired", "The provided continue parameter is too old", f)
		}
		things, rv = w.pastLocked(at)
	} else if n, _ := strconv.Atoi(r.rv); n > rv && f.stale == 0 {
		return 504, status(504, "Timeout", "", fault{tooLarge: true})
	}
	names := slices.Sorted(maps.Keys(things))
	next := ""
	if r.limit > 0 && r.rv != "0" && start+r.limit < len(names) {
		names, next = names[start:start+r.limit], fmt.Sprintf("%d-%d", rv, start+r.limit)
	} else {
		names = names[start:]
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"%d","continue":%q},"items":[`, rv, next)
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(things[name])
	}
	if f.bad != "" {
		if len(names) > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f.bad)
	}
	b.WriteString("]}\n")
	return 200, b.String()
}

// pastLocked is the state at rv.
func (w *world) pastLocked(rv int) (map[string]string, int) {
	things := map[string]string{}
	for _, l := range w.log {
		if l.rv > rv {
			break
		}
		if l.event == "DELETED" {
			delete(things, l.key)
		} else {
			things[l.key] = l.object
		}
	}
	return things, rv
}

var (
	errCut    = errors.New("cut")
	errSilent = errors.New("silent")
)

// watcher writes one watch.
type watcher struct {
	*world
	r    request
	f    fault
	emit func(string) error
	sent int
}

func (v *watcher) send(event, object string) error {
	line := fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", event, object)
	if v.f.end != "" && v.sent >= v.f.after {
		switch v.f.end {
		case "half":
			if err := v.emit(line[:len(line)/2]); err != nil {
				return err
			}
			return errCut
		case "garbage":
			if err := v.emit("{\"type\":}}}\n"); err != nil {
				return err
			}
			return errCut
		}
	}
	if err := v.emit(line); err != nil {
		return err
	}
	v.sent++
	return v.check()
}

// check ends the stream when its time has come.
func (v *watcher) check() error {
	if v.f.end == "" || v.sent < v.f.after {
		return nil
	}
	var last string
	switch v.f.end {
	case "eof":
		return io.EOF
	case "cut":
		return errCut
	case "silent":
		return errSilent
	case "410":
		last = status(410, "Expired", "too old resource version: 1 (2)", v.f)
	case "504":
		last = status(504, "Timeout", "", fault{tooLarge: true})
	case "429":
		last = status(429, "TooManyRequests", "slow down", v.f)
	case "500":
		last = status(500, "InternalError", "etcdserver: oh", v.f)
	default:
		return nil
	}
	if err := v.emit("{\"type\":\"ERROR\",\"object\":" + last + "}\n"); err != nil {
		return err
	}
	return io.EOF
}

// watch writes frames until it ends: io.EOF cleanly, errCut not.
func (w *world) watch(ctx context.Context, r request, f fault, emit func(string) error) error {
	v := &watcher{world: w, r: r, f: f, emit: emit}
	err := v.run(ctx)
	if errors.Is(err, errSilent) {
		<-ctx.Done()
		return errCut
	}
	return err
}

func (v *watcher) run(ctx context.Context) error {
	if err := v.check(); err != nil {
		return err
	}
	v.mu.Lock()
	position, _ := strconv.Atoi(v.r.rv)
	var initial []string
	if v.r.initial {
		if position > v.rv {
			v.mu.Unlock()
			v.f.end, v.f.after = "504", 0
			return v.check()
		}
		for _, name := range slices.Sorted(maps.Keys(v.things)) {
			initial = append(initial, v.things[name])
		}
		position = v.rv
	} else {
		if position < v.floor {
			v.mu.Unlock()
			v.f.end, v.f.after = "410", 0
			return v.check()
		}
		position -= v.f.repeat
	}
	v.mu.Unlock()
	for _, object := range initial {
		if err := v.send("ADDED", object); err != nil {
			return err
		}
	}
	if v.r.initial && !v.f.noEnd {
		if err := v.bookmark(position, `,"annotations":{"k8s.io/initial-events-end":"true"}`); err != nil {
			return err
		}
	}
	if v.f.bad != "" {
		if err := v.send("MODIFIED", v.f.bad); err != nil {
			return err
		}
	}
	return v.follow(ctx, position)
}

func (v *watcher) bookmark(rv int, more string) error {
	return v.send("BOOKMARK", fmt.Sprintf(`{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"%d"%s}}`, rv, more))
}

func (v *watcher) follow(ctx context.Context, position int) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	end := time.NewTimer(time.Duration(v.r.seconds) * time.Second)
	defer end.Stop()
	marks := v.r.bookmarks && !v.f.noBookmarks
	for {
		v.mu.Lock()
		var fresh []logged
		for _, l := range v.log {
			if l.rv > position {
				fresh = append(fresh, l)
			}
		}
		wake, now := v.wake, v.rv
		v.mu.Unlock()
		for _, l := range fresh {
			if err := v.send(l.event, l.object); err != nil {
				return err
			}
			position = l.rv
		}
		if len(fresh) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return errCut
		case <-wake:
		case <-tick.C:
			if marks {
				if err := v.bookmark(now, ""); err != nil {
					return err
				}
			}
		case <-end.C:
			if marks {
				if err := v.bookmark(now, ""); err != nil {
					return err
				}
			}
			return io.EOF
		}
	}
}
