package informer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
)

// ServeHTTP is the world over HTTP.
func (w *world) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	r := requestOf(req.URL.Query())
	f := w.faultFor(r)
	select {
	case <-time.After(f.delay):
	case <-req.Context().Done():
		return
	}
	switch {
	case f.hang:
		<-req.Context().Done()
		return
	case f.refuse:
		panic(http.ErrAbortHandler)
	case f.status != 0:
		rw.Header().Set("Content-Type", "application/json")
		if f.retryAfter > 0 {
			rw.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
		}
		rw.WriteHeader(f.status)
		_, _ = io.WriteString(rw, status(f.status, f.reason, "refused", f))
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	if !r.watch {
		code, body := w.list(r, f)
		rw.WriteHeader(code)
		_, _ = io.WriteString(rw, body)
		return
	}
	rw.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(rw).Flush
	_ = flush()
	err := w.watch(req.Context(), r, f, func(line string) error {
		if _, err := io.WriteString(rw, line); err != nil {
			return err
		}
		return flush()
	})
	if errors.Is(err, errCut) {
		panic(http.ErrAbortHandler)
	}
}

func requestOf(q url.Values) request {
	limit, _ := strconv.Atoi(q.Get("limit"))
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	return request{
		watch: q.Get("watch") == "true", initial: q.Get("sendInitialEvents") == "true",
		rv: q.Get("resourceVersion"), match: q.Get("resourceVersionMatch"),
		limit: limit, cont: q.Get("continue"), bookmarks: q.Get("allowWatchBookmarks") == "true", seconds: seconds,
	}
}

// memory is the world as a Backend without a network, for time that is not real.
type memory struct{ *world }

func requestFrom(o metav1.ListOptions) request {
	r := request{rv: o.ResourceVersion, match: string(o.ResourceVersionMatch), limit: int(o.Limit), cont: o.Continue, bookmarks: o.AllowWatchBookmarks}
	if o.TimeoutSeconds != nil {
		r.seconds = int(*o.TimeoutSeconds)
	}
	r.initial = o.SendInitialEvents != nil && *o.SendInitialEvents
	return r
}

// open performs the part of a fault that comes before an answer.
func (m memory) open(ctx context.Context, f fault) error {
	select {
	case <-time.After(f.delay):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case f.hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case f.refuse:
		return errRefused
	case f.status != 0:
		return statusError(f.status, status(f.status, f.reason, "refused", f))
	}
	return nil
}

func (m memory) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	r := requestFrom(o)
	f := m.faultFor(r)
	if err := m.open(ctx, f); err != nil {
		return metav1.ListMeta{}, err
	}
	code, body := m.list(r, f)
	if code != 200 {
		return metav1.ListMeta{}, statusError(code, body)
	}
	if f.end == "cut" {
		body = body[:len(body)*2/3]
	}
	return client.DecodeList(bytes.NewReader([]byte(body)), each)
}

func (m memory) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	r := requestFrom(o)
	r.watch = true
	f := m.faultFor(r)
	if err := m.open(ctx, f); err != nil {
		return nil, err
	}
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		err := m.watch(ctx, r, f, func(line string) error {
			_, err := io.WriteString(out, line)
			return err
		})
		if errors.Is(err, errCut) {
			err = io.ErrUnexpectedEOF
		}
		out.CloseWithError(err)
	}()
	req := (&http.Request{URL: &url.URL{Path: "/things"}}).WithContext(ctx)
	return memoryStream{client.ReadWatch(&http.Response{Body: in, Request: req}), cancel}, nil //nolint:contextcheck // the request has the context
}

type memoryStream struct {
	*client.Watch
	cancel func()
}

func (s memoryStream) Close() error {
	s.cancel()
	return s.Watch.Close()
}

// statusError is what the client makes of an answer.
func statusError(code int, body string) error {
	var e apierrors.StatusError
	if err := json.Unmarshal([]byte(body), &e.ErrStatus); err != nil {
		return fmt.Errorf("status %d: %w", code, err)
	}
	return &e
}

func (w *world) informer(opts ...informer.Option) *informer.Informer[*thing] {
	return informer.New(informer.From("things", memory{w}, informer.JSON[*thing]()), opts...)
}

func thingsGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "things"}
}

// overHTTP serves the world on a real socket.
func (w *world) overHTTP(t testing.TB, opts ...informer.Option) *informer.Informer[*thing] {
	t.Helper()
	srv := httptest.NewServer(w)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	cfg := &rest.Config{Host: srv.URL, Dial: nil}
	return informer.New(informer.For[*thing](cfg, thingsGVR()), opts...)
}

func key(name string) informer.Key { return types.NamespacedName{Namespace: "default", Name: name} }
