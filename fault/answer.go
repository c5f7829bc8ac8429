package fault

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/fault/internal/conn"
	"github.com/gapless-io/gapless/fault/internal/frames"
	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/kube"
)

// Refuse answers with the Status of an error, as API servers do.
func Refuse(w http.ResponseWriter, err error) { refusal.Write(w, err) }

// After is an editor for Frames that passes n frames on unchanged, and behind the last of
// them sends once what do returns. With n 0 that is before the first event.
func After(n int, do func(last Frame) []Frame) func(Frame) []Frame {
	count := -1 // Opened is no event
	return func(f Frame) []Frame {
		count++
		if count == n {
			return append([]Frame{f}, do(f)...)
		}
		return []Frame{f}
	}
}

// isWatch reports whether a request is a watch.
func isWatch(r *http.Request) bool { return RequestOf(r).Verb == "watch" }

// lasting returns the context of an answer: a WebSocket can outlive the request that opened it.
func lasting(r *http.Request) context.Context {
	if frames.IsUpgrade(r) {
		return context.WithoutCancel(r.Context())
	}
	return r.Context()
}

// groupResource is the resource of a request.
func groupResource(q Request) schema.GroupResource {
	return schema.GroupResource{Group: q.Group, Resource: q.Resource}
}

// cut ends the answer to a request by how, without answering.
func cut(r *http.Request, how Ending) {
	if c := conn.From(r.Context()); how == Reset && c != nil {
		c.Reset()
	}
	panic(http.ErrAbortHandler)
}

// rvOf returns the parameter resourceVersion; 0 if it is not given or no number.
func rvOf(r *http.Request) kube.ResourceVersion {
	rv, err := kube.ParseResourceVersion(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		return 0
	}
	return rv
}

// withQuery returns a request with a changed query.
func withQuery(r *http.Request, set map[string]string) *http.Request {
	changed := r.Clone(r.Context())
	q := r.URL.Query()
	for key, value := range set {
		if q.Del(key); value != "" {
			q.Set(key, value)
		}
	}
	changed.URL.RawQuery = q.Encode()
	changed.RequestURI = changed.URL.RequestURI()
	return changed
}

// onEvent is an editor that passes n events about objects on, and sends once what do returns
// for the next one.
func onEvent(n int, do func(Frame) Frame) func(Frame) []Frame {
	passed, done := 0, false
	return func(f Frame) []Frame {
		if done || f.Type != "ADDED" && f.Type != "MODIFIED" && f.Type != "DELETED" {
			return []Frame{f}
		}
		if passed++; passed <= n {
			return []Frame{f}
		}
		done = true
		return []Frame{do(f)}
	}
}

// newRecorder returns one that keeps what is enough for a Status.
func newRecorder() *frames.Recorder { return frames.NewRecorder(1 << 20) }
