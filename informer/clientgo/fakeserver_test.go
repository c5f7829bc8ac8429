package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// fakeServer serves ConfigMaps of the namespace "ns". It is the transport of a client, so
// it needs no network and works in virtual time.
type fakeServer struct {
	noStreams bool // streaming lists are refused

	mu      sync.Mutex
	rv      int
	uids    int
	objects map[string]object
	history []event
	floor   int // the lowest resource version that a watch can start from
	away    bool
	changed chan struct{} // closed and replaced at every change
	cuts    int           // how often open watches were broken, or ended
	clean   bool          // the last time: ended
	asked   []string
}

type object struct {
	name    string
	uid, rv int
	value   string
}

func (o object) json() string {
	return fmt.Sprintf(
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":"ns","uid":"u%d","resourceVersion":"%d"},`+
			`"data":{"value":%q}}`, o.name, o.uid, o.rv, o.value)
}

// event is a line of the history. raw lines are sent to open watches only.
type event struct {
	rv   int
	line string
	raw  bool
}

func newFakeServer() *fakeServer {
	return &fakeServer{rv: 1000, floor: 1000, objects: map[string]object{}, changed: make(chan struct{})}
}

func (w *fakeServer) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *fakeServer) appendLocked(kind string, o object) {
	w.history = append(w.history, event{rv: o.rv, line: fmt.Sprintf("{\"type\":%q,\"object\":%s}\n", kind, o.json())})
}

// put creates or changes an object.
func (w *fakeServer) put(name, value string) {
	w.do(func() {
		w.rv++
		kind := "MODIFIED"
		o, there := w.objects[name]
		if !there {
			w.uids++
			kind, o = "ADDED", object{name: name, uid: w.uids}
		}
		o.rv, o.value = w.rv, value
		w.objects[name] = o
		w.appendLocked(kind, o)
	})
}

func (w *fakeServer) delete(name string) {
	w.do(func() {
		o, there := w.objects[name]
		if !there {
			return
		}
		w.rv++
		o.rv = w.rv
		delete(w.objects, name)
		w.appendLocked("DELETED", o)
	})
}

// bookmark sends a bookmark to open watches.
func (w *fakeServer) bookmark() {
	w.do(func() {
		w.rv++ // something else changed
		w.history = append(w.history, event{rv: w.rv, raw: true, line: w.markLocked()})
	})
}

// mark returns a bookmark for a watch that has sent all events, "" for any other.
func (w *fakeServer) mark(position int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if position < len(w.history) {
		return ""
	}
	return w.markLocked()
}

func (w *fakeServer) markLocked() string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1",`+
		`"metadata":{"resourceVersion":"%d"}}}`+"\n", w.rv)
}

// repeat sends an event of the history to open watches again; back counts from its end.
func (w *fakeServer) repeat(back int) {
	w.do(func() {
		if len(w.history) <= back {
			return
		}
		w.history = append(w.history, event{rv: w.rv, raw: true, line: w.history[len(w.history)-1-back].line})
	})
}

// forget drops the history and cuts the watches, which then get a 410.
func (w *fakeServer) forget() {
	w.do(func() { w.rv++; w.floor = w.rv })
	w.cut()
}

func (w *fakeServer) cut() { w.do(func() { w.cuts++; w.clean = false }) }
func (w *fakeServer) end() { w.do(func() { w.cuts++; w.clean = true }) }

// leave makes the server unreachable, comeBack reachable again. client-go's informer may
// take two minutes to notice.
func (w *fakeServer) leave() {
	w.do(func() { w.away = true })
	w.cut()
	after(time.Second)
}

func (w *fakeServer) comeBack() { w.do(func() { w.away = false }) }

// RoundTrip answers a request.
func (w *fakeServer) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	w.mu.Lock()
	w.asked = append(w.asked, q.Encode())
	away := w.away
	w.mu.Unlock()
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req}
	switch {
	case away:
		return nil, &url.Error{Op: "Get", URL: req.URL.String(), Err: syscall.ECONNREFUSED}
	case q.Get("watch") == "":
		answer.Body = io.NopCloser(strings.NewReader(w.list()))
		return answer, nil
	case q.Get("sendInitialEvents") == "true" && w.noStreams:
		answer.StatusCode = http.StatusUnprocessableEntity
		answer.Body = io.NopCloser(
			strings.NewReader(
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,` +
					`"message":"sendInitialEvents is forbidden"}`))
		return answer, nil
	}
	in, out := io.Pipe()
	answer.Body = in
	// It ends with the request's context, or when its reader closes the pipe.
	go func() { out.CloseWithError(w.watch(req.Context(), q, out)) }()
	return answer, nil
}

func (w *fakeServer) list() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var items []string
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		items = append(items, w.objects[name].json())
	}
	return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`,
		w.rv, strings.Join(items, ","))
}

var errCut = errors.New("connection reset by peer")

func (w *fakeServer) watch(ctx context.Context, q url.Values, out io.Writer) error {
	w.mu.Lock()
	from, cuts := w.rv, w.cuts
	position := len(w.history)
	var first strings.Builder
	if q.Get("sendInitialEvents") == "true" {
		for _, name := range slices.Sorted(maps.Keys(w.objects)) {
			fmt.Fprintf(&first, "{\"type\":\"ADDED\",\"object\":%s}\n", w.objects[name].json())
		}
		fmt.Fprintf(&first, `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1",`+
			`"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n", w.rv)
	} else {
		from, _ = strconv.Atoi(q.Get("resourceVersion"))
		if from < w.floor {
			w.mu.Unlock()
			_, err := io.WriteString(out, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",`+
				`"reason":"Expired","code":410,"message":"too old resource version"}}`+"\n")
			return err
		}
		position = slices.IndexFunc(w.history, func(e event) bool { return e.rv > from })
		if position < 0 {
			position = len(w.history)
		}
	}
	since := len(w.history)
	w.mu.Unlock()
	text := first.String()
	for {
		if _, err := io.WriteString(out, text); text != "" && err != nil {
			return err
		}
		w.mu.Lock()
		text = ""
		for ; position < len(w.history); position++ {
			if e := w.history[position]; !e.raw || position >= since {
				text += e.line
			}
		}
		over, clean, changed := w.cuts != cuts, w.clean, w.changed
		w.mu.Unlock()
		switch {
		case text != "":
		case over && clean:
			return io.EOF
		case over:
			return errCut
		default:
			select {
			case <-changed:
			case <-time.After(time.Minute): // as servers do
				text = w.mark(position)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// listWatch is a client's view of the fakeServer.
func (w *fakeServer) listWatch(t testing.TB) *cache.ListWatch {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://fakeServer", Transport: w, QPS: -1})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return listWatch(client)
}

func listWatch(client kubernetes.Interface) *cache.ListWatch {
	return cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "ns", fields.Everything())
}

// after lets virtual time pass.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// run runs informers while f works, and then stops them.
func run(t *testing.T, f func(), informers ...cache.SharedIndexInformer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, i := range informers {
		group.Go(func() { i.RunWithContext(ctx) })
	}
	f()
	cancel()
	group.Wait()
}

// log is a handler that records its calls.
type log struct {
	slow time.Duration
	fail func(line string)

	mu    sync.Mutex
	lines map[string][]string // by key
	times []time.Time
}

func newLog() *log { return &log{lines: map[string][]string{}} }

func (l *log) say(o any, line string) {
	if l.slow > 0 {
		<-time.After(l.slow)
	}
	l.mu.Lock()
	key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
	l.lines[key] = append(l.lines[key], line)
	l.times = append(l.times, time.Now())
	l.mu.Unlock()
	if l.fail != nil {
		l.fail(line)
	}
}

// short is an object as uid@rv=value.
func short(o any) string {
	c, is := o.(*corev1.ConfigMap)
	if !is {
		return fmt.Sprintf("%T", o)
	}
	return fmt.Sprintf("%s@%s=%s", c.UID, c.ResourceVersion, c.Data["value"])
}

func (l *log) OnAdd(o any, initial bool) {
	if initial {
		l.say(o, "initial "+short(o))
		return
	}
	l.say(o, "add "+short(o))
}

func (l *log) OnUpdate(from, to any) { l.say(to, "update "+short(from)+" "+short(to)) }

func (l *log) OnDelete(o any) {
	if d, is := o.(cache.DeletedFinalStateUnknown); is {
		l.say(o, "lost "+d.Key+" "+short(d.Obj))
		return
	}
	l.say(o, "delete "+short(o))
}

// calls returns the calls since the last time.
func (l *log) calls() map[string][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.lines
	l.lines, l.times = map[string][]string{}, nil
	return all
}
