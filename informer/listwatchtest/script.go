package listwatchtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
)

// ErrNoList is the answer of a Script without OnList.
var ErrNoList = errors.New("this server has streaming lists only")

// Script answers requests with functions of the test, for answers that no [Fault] has. It
// has the methods of an informer.Backend, except for the result type of Watch.
type Script struct {
	// OnList answers a LIST; nil means ErrNoList.
	OnList func(ctx context.Context, r Request, each func(item []byte) error) (metav1.ListMeta, error)
	// OnWatch writes the frames of a watch in their JSON encoding. The watch ends when it
	// returns, cleanly for nil. It may call write after the client has gone.
	OnWatch func(ctx context.Context, r Request, write func(frames ...string)) error
	// Body is the body of a watch if OnWatch is nil; nil means an empty one. The watch stays
	// open after it.
	Body func() io.Reader
}

// List answers a LIST.
func (s Script) List(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error) {
	if s.OnList == nil {
		return metav1.ListMeta{}, ErrNoList
	}
	return s.OnList(ctx, RequestOf(o), each)
}

// Watch opens a watch, which ends with ctx.
func (s Script) Watch(ctx context.Context, o metav1.ListOptions) (*client.Watch, error) {
	r := RequestOf(o)
	r.Watch = true
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() { // ends with ctx
		defer stop()
		if s.OnWatch == nil {
			out.CloseWithError(s.copy(ctx, out)) // stop may keep the function above from running
			return
		}
		out.CloseWithError(s.OnWatch(ctx, r, func(frames ...string) {
			_, _ = io.WriteString(out, strings.Join(frames, "")) // fails after the client has gone
		}))
	}()
	req := (&http.Request{URL: &url.URL{Path: "/things"}}).WithContext(ctx)
	return client.ReadWatch(&http.Response{Body: body{in, cancel}, Request: req}), nil //nolint:contextcheck // the request has the context
}

// copy writes the body and keeps the watch open until ctx ends, and returns why it did.
func (s Script) copy(ctx context.Context, out io.Writer) error {
	if s.Body != nil {
		_, _ = io.Copy(out, s.Body()) // fails after the client has gone
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// Frame returns the JSON encoding of a watch event.
func Frame(event, object string) string {
	return `{"type":"` + event + `","object":` + object + "}\n"
}

// Bookmark returns the JSON encoding of a bookmark.
func Bookmark(rv string) string {
	return Frame("BOOKMARK", `{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"`+rv+`"}}`)
}

// InitialEventsEnd returns the JSON encoding of the bookmark that ends the initial events.
func InitialEventsEnd(rv string) string {
	return Frame("BOOKMARK",
		`{"kind":"Thing","apiVersion":"v1","metadata":{"resourceVersion":"`+rv+`","annotations":{"k8s.io/initial-events-end":"true"}}}`)
}
