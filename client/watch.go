package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/kube"
)

// Frame is one event of a watch as it came.
type Frame struct {
	// Type is never kube.Error: that is an error of Next. It is 0 for a frame that
	// is JSON but no event this client knows; the stream goes on behind it.
	Type kube.EventType
	// Object is the object's JSON and belongs to the receiver; for Type 0 it is the
	// whole frame. It can be nil for Type 0 only.
	Object []byte
}

// Meta reads the metadata of the frame's object; for bookmarks it is the position.
func (f Frame) Meta() (Meta, error) { return MetaOf(f.Object) }

// Watch is an open watch, used by one goroutine at a time.
type Watch struct {
	name  string
	ctx   context.Context //nolint:containedctx // a stream that is a call: its end is the call's
	body  io.Closer
	in    *bufio.Reader
	limit *valueReader
	dec   *jsontext.Decoder
	err   error

	lends  bool
	object []byte // what was lent
}

// Lend makes Next lend the frames' objects: they are valid until the next call. It
// saves their copy. It is for before the first Next.
func (w *Watch) Lend() { w.lends = true }

// keep copies a value that the decoder is about to overwrite.
func (w *Watch) keep(value []byte) []byte {
	if !w.lends {
		return bytes.Clone(value)
	}
	w.object = append(w.object[:0], value...)
	return w.object
}

// Watch opens a watch and returns when the server has accepted it; ctx ends it.
// o.Watch need not be set. Errors: those of Do.
func (c *Client) Watch(ctx context.Context, of Collection, o metav1.ListOptions) (*Watch, error) {
	q := query(o)
	q.Set("watch", "true")
	req, err := c.request(ctx, Request{Path: of.Path(), Query: q})
	if err != nil {
		return nil, err
	}
	if c.compress {
		// Asked for by hand, so that net/http leaves the decoding to us: its reader
		// holds an event back until the next gzip member begins (server.md 3.1).
		req.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := c.send(req)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", of, err)
	}
	if err := checkJSON(resp); err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("watch %s: %w", of, err)
	}
	var body io.Reader = resp.Body
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		body = newMembers(resp.Body)
	}
	w := newWatch(ctx, body, resp.Body)
	w.name = of.String()
	return w, nil
}

// ReadWatch reads frames from the body of an answer that Do returned, for watches
// with other headers; net/http may have decompressed it. The watch ends with the
// context of the answer's request. Close closes the body.
func ReadWatch(resp *http.Response) *Watch {
	w := newWatch(resp.Request.Context(), resp.Body, resp.Body)
	w.name = resp.Request.URL.Path
	return w
}

func newWatch(ctx context.Context, body io.Reader, closer io.Closer) *Watch {
	w := &Watch{ctx: ctx, body: closer}
	w.limit = &valueReader{r: body, left: maxValue}
	w.in = bufio.NewReaderSize(w.limit, 64<<10) // one read for a burst of events
	w.dec = jsontext.NewDecoder(w.in, lenient())
	return w
}

// Next blocks until there is a frame. It returns io.EOF when the server ended the
// stream cleanly, the Status of an ERROR frame as an error that kube.Classify
// understands, the decoder's error when the stream can no longer be read (the
// caller has to open another), and ctx's cause. After an error there is nothing
// more.
func (w *Watch) Next() (Frame, error) {
	if w.err != nil {
		return Frame{}, w.err
	}
	f, err := w.next()
	if err == nil {
		return f, nil
	}
	if err = w.blame(err); !errors.Is(err, io.EOF) {
		err = fmt.Errorf("watch %s: %w", w.name, causeOf(w.ctx, err))
	}
	w.err = err
	return Frame{}, err
}

// Ready says that another whole frame has probably arrived, so that Next does not
// wait for the network. It holds for servers that send one line per event; for
// others it can be wrong in both directions.
func (w *Watch) Ready() bool {
	rest := bytes.TrimLeft(w.dec.UnreadBuffer(), " \t\r\n")
	if bytes.IndexByte(rest, '\n') >= 0 {
		return true
	}
	buffered, err := w.in.Peek(w.in.Buffered())
	if err != nil {
		return false
	}
	if len(rest) == 0 {
		buffered = bytes.TrimLeft(buffered, " \t\r\n")
	}
	return bytes.IndexByte(buffered, '\n') >= 0
}

// Close ends the watch. It may be called from another goroutine and more than once.
func (w *Watch) Close() error { return w.body.Close() }

func (w *Watch) next() (Frame, error) {
	w.limit.left = maxValue
	kind := w.dec.PeekKind()
	if kind != '{' {
		value, err := w.dec.ReadValue() // io.EOF between frames
		if err != nil {
			return Frame{}, err
		}
		return Frame{Object: bytes.Clone(value)}, nil
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return Frame{}, err
	}
	var event, object []byte
	var short [16]byte
	for w.dec.PeekKind() == '"' {
		name, err := w.dec.ReadToken()
		if err != nil {
			return Frame{}, whole(err)
		}
		member := name.String()
		value, err := w.dec.ReadValue()
		if err != nil {
			return Frame{}, whole(err)
		}
		switch member {
		case "type":
			event = append(short[:0], value...)
		case "object":
			object = w.keep(value)
		}
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return Frame{}, whole(err)
	}
	return frameOf(event, object)
}

// frameOf says what an event is. event is JSON text.
func frameOf(event, object []byte) (Frame, error) {
	f := Frame{Object: object}
	switch string(event) {
	case `"ADDED"`:
		f.Type = kube.Added
	case `"MODIFIED"`:
		f.Type = kube.Modified
	case `"DELETED"`:
		f.Type = kube.Deleted
	case `"BOOKMARK"`:
		f.Type = kube.Bookmark
		if ends, err := bookmarkEnds(object); err != nil {
			f.Type = 0
		} else if ends {
			f.Type = kube.InitialEventsEnd
		}
	case `"ERROR"`:
		return Frame{}, statusFrame(object)
	}
	if f.Type == 0 || len(object) == 0 {
		return Frame{Object: fmt.Appendf(nil, `{"type":%s,"object":%s}`, orNull(event), orNull(object))}, nil
	}
	return f, nil
}

// blame returns what broke, which can be the connection below the decoder. An
// ERROR frame is the server's word and stands, also if the connection broke behind it.
func (w *Watch) blame(err error) error {
	if _, is := errors.AsType[*apierrors.StatusError](err); is {
		return err
	}
	return w.limit.blame(err)
}

func orNull(value []byte) []byte {
	if len(value) == 0 {
		return []byte("null")
	}
	return value
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
		schema.GroupResource{}, "", "the stream ended with "+string(object[:min(len(object), 512)]), 0, true)
}
