package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/kube"
)

// Frame is one event of a watch, not decoded.
type Frame struct {
	// Type is never kube.Error: that is an error of Next. It is 0 for a valid
	// frame of an unknown type; the stream continues after it.
	Type kube.EventType
	// Object is the encoded object, in protobuf if the Form asks for it, otherwise in
	// JSON. The caller may keep it. For Type 0 it is the whole frame, as JSON.
	Object []byte
}

// Meta reads the metadata of the frame's object; for bookmarks it is the position.
func (f Frame) Meta() (Meta, error) { return MetaOf(f.Object) }

// Watch is an open watch, used by one goroutine at a time.
type Watch struct {
	name string
	ctx  context.Context //nolint:containedctx // a stream that is a call: its end is the call's
	body io.Closer
	in   frames
	err  error

	form    Form
	checked bool // that the objects are what form asks for
}

// frames is how a stream is read, whatever it is written in.
type frames interface {
	lend()
	next() (Frame, error)
	ready() bool
	// blame returns what broke, which can be the connection below what noticed.
	blame(err error) error
}

// Lend makes Next return objects without a copy: they are valid only until the next
// call. Call it before the first Next.
func (w *Watch) Lend() { w.in.lend() }

// Watch opens a watch and returns when the server has accepted it; ctx ends it.
// o.Watch need not be set. Errors: those of Do.
func (c *Client) Watch(ctx context.Context, of Collection, o metav1.ListOptions) (*Watch, error) {
	q := of.query(o)
	q.Set("watch", "true")
	req, err := c.request(ctx, Request{Path: of.Path(), Query: q, Accept: c.form.accept(partial)})
	if err != nil {
		return nil, err
	}
	if c.compress {
		// Asked for by hand, so that net/http leaves the decoding to us: its reader
		// holds an event back until the next gzip member begins.
		req.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := c.send(req)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", of, err)
	}
	written, err := c.form.encodingOf(resp)
	if err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("watch %s: %w", of, err)
	}
	var body io.Reader = resp.Body
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		body = newMembers(resp.Body)
	}
	w := newWatch(ctx, resp.Body, newFrames(body, written))
	w.name, w.form = of.String(), c.form
	return w, nil
}

// ReadWatch reads frames from the body of an answer that Do returned, for watches
// with other headers; net/http may have decompressed it. The Content-Type decides
// between JSON and protobuf. The watch ends with the context of the answer's request.
// Close closes the body.
func ReadWatch(resp *http.Response) *Watch {
	written := inJSON
	if mediaOf(resp) == typeProtobuf {
		written = inProtobuf
	}
	w := newWatch(resp.Request.Context(), resp.Body, newFrames(resp.Body, written))
	w.name = resp.Request.URL.Path
	return w
}

func newWatch(ctx context.Context, body io.Closer, in frames) *Watch {
	return &Watch{ctx: ctx, body: body, in: in}
}

func newFrames(body io.Reader, written encoding) frames {
	if written == inProtobuf {
		return newProtobufFrames(body)
	}
	return newJSONFrames(body)
}

// Next blocks until there is a frame. It returns io.EOF when the server ended the
// stream cleanly, the Status of an ERROR frame as an error that kube.Classify
// understands, the decoder's error for a stream that cannot be decoded (with ErrProtobuf
// if it was protobuf), and ctx's cause. After any error the watch has ended.
func (w *Watch) Next() (Frame, error) {
	if w.err != nil {
		return Frame{}, w.err
	}
	f, err := w.in.next()
	if err == nil {
		err = w.check(f)
	}
	if err == nil {
		return f, nil
	}
	if err = w.in.blame(err); !errors.Is(err, io.EOF) {
		err = fmt.Errorf("watch %s: %w", w.name, causeOf(w.ctx, err))
	}
	w.err = err
	return Frame{}, err
}

// check refuses a stream of other objects than requested. The first object
// says what all are.
func (w *Watch) check(f Frame) error {
	if w.checked || f.Type != kube.Added && f.Type != kube.Modified && f.Type != kube.Deleted {
		return nil
	}
	w.checked = true
	if !w.form.Metadata {
		return nil
	}
	return w.form.checkKind(partial, kindOf(f.Object))
}

// Ready reports whether another whole frame has probably arrived, so that Next does not
// wait for the network. For JSON it relies on servers that send one line per event; for
// others it can be wrong in both directions.
func (w *Watch) Ready() bool { return w.in.ready() }

// Close ends the watch. It may be called from another goroutine and more than once.
func (w *Watch) Close() error { return w.body.Close() }

// typed returns the type of an event; 0 if it is unknown. For an ERROR it ends the
// stream.
func typed(name string, object []byte) (kube.EventType, error) {
	switch name {
	case "ADDED":
		return kube.Added, nil
	case "MODIFIED":
		return kube.Modified, nil
	case "DELETED":
		return kube.Deleted, nil
	case "BOOKMARK":
		ends, err := bookmarkEnds(object)
		switch {
		case err != nil:
			return 0, nil //nolint:nilerr // it is no bookmark; the stream goes on behind it
		case ends:
			return kube.InitialEventsEnd, nil
		}
		return kube.Bookmark, nil
	case "ERROR":
		return 0, statusFrame(object)
	}
	return 0, nil
}

// statusFrame makes an error of the object of an ERROR frame, whatever it is.
func statusFrame(object []byte) error {
	if status, is := parseStatus(object); is && status.Status != metav1.StatusSuccess {
		if status.Code == 0 && status.Reason == "" {
			status.Code = http.StatusInternalServerError
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	return apierrors.NewGenericServerResponse(http.StatusInternalServerError, "watch",
		schema.GroupResource{}, "", "the stream ended with "+printable(object[:min(len(object), 512)]), 0, true)
}
