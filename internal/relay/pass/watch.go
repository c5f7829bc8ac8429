package pass

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/kube"
)

// Ending says when a watch that is passed on must end although neither side ends it: Ended is closed then,
// and Why returns the error that is the last event.
type Ending struct {
	Ended <-chan struct{}
	Why   func() error
}

// ServeWatch is ServeHTTP for a watch, which ends with an ERROR event when e says so: as soon as the
// client has the whole of the event before it. The connection is cut where no event can be added:
// upstream compresses the watch, or it is over a WebSocket.
func (h *Handler) ServeWatch(w http.ResponseWriter, r *http.Request, e Ending) {
	ctx, cancel := context.WithCancel(r.Context())
	watched := &watchWriter{ResponseWriter: w, why: e.Why, cancel: cancel}
	var to http.ResponseWriter = watched
	if r.Header.Get("Upgrade") != "" {
		to = w // the connection is taken from it
	}
	ended := make(chan struct{})
	go func() { // it ends with ctx, which ends with this call
		defer close(ended)
		select {
		case <-e.Ended:
			watched.end()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-ended
		cut := recover()
		switch {
		case cut == nil, watched.over:
		case watched.wanted && !watched.begun && to == watched:
			refusal.Write(w, e.Why())
		default:
			panic(cut)
		}
	}()
	h.ServeHTTP(to, r.WithContext(ctx))
}

// watchWriter writes a watch to a client, and knows where an event ends.
type watchWriter struct {
	http.ResponseWriter

	why    func() error
	cancel func()

	// mu guards what follows, and the ResponseWriter: the proxy and end write to it.
	mu     sync.Mutex
	begun  bool // the answer has
	wanted bool // the watch is to end
	over   bool // the last event was written
	form   form
	events boundary
}

// errEnded keeps the rest of upstream's answer from the client.
var errEnded = errors.New("the watch has ended")

// form is how the events of a watch are written.
type form int

const (
	formOther    form = iota // compressed, an error, or not known
	formJSON                 // each event is a line
	formProtobuf             // each event has its length in four bytes before it
)

// formOf returns the form of an answer. CBOR has no separators between events, and is formOther.
func formOf(code int, h http.Header) form {
	if code != http.StatusOK || h.Get("Content-Encoding") != "" {
		return formOther
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err != nil:
	case media == "application/json":
		return formJSON
	case media == runtime.ContentTypeProtobuf:
		return formProtobuf
	}
	return formOther
}

// Unwrap is for http.ResponseController.
func (w *watchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *watchWriter) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
	if code >= http.StatusOK {
		w.begun, w.form = true, formOf(code, w.Header())
		w.events.form = w.form
		w.endLocked()
	}
}

// Write implements http.ResponseWriter.
func (w *watchWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0, errEnded
	}
	part := p
	if w.wanted && w.form != formOther {
		part = p[:w.events.first(p)]
	}
	n, err := w.ResponseWriter.Write(part)
	w.events.pass(part[:n])
	if err != nil || len(part) == len(p) && !w.wanted {
		return n, err
	}
	w.endLocked()
	if n < len(p) {
		return n, errEnded
	}
	return n, nil
}

// FlushError implements what http.ResponseController calls.
func (w *watchWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// end ends the watch, now or with the event that is being written.
func (w *watchWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
	if !w.begun || w.form == formOther {
		w.cancel()
		return
	}
	w.endLocked()
}

// endLocked writes the last event, if the watch is to end and the client is not within another one.
func (w *watchWriter) endLocked() {
	if !w.wanted || w.over || w.form == formOther || !w.events.between() {
		return
	}
	last, err := errorEvent(w.form, w.why())
	if err == nil {
		_, err = w.ResponseWriter.Write(last)
	}
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	w.over = err == nil // otherwise the connection is cut
	w.cancel()
}

// boundary finds the ends of events in what is written.
type boundary struct {
	form   form
	within bool   // JSON: a line has begun
	head   []byte // protobuf: what there is of the length of the next event
	left   int    // protobuf: bytes of the event that are missing
}

// between reports whether no event has begun that has not ended.
func (b *boundary) between() bool { return !b.within && len(b.head) == 0 && b.left == 0 }

// first returns how many bytes of p are to be written until no event is within its middle, or all.
func (b *boundary) first(p []byte) int {
	at := *b
	at.head = append([]byte(nil), b.head...)
	for i := range p {
		if at.between() {
			return i
		}
		at.pass(p[i : i+1])
	}
	return len(p)
}

// pass takes note of what was written.
func (b *boundary) pass(p []byte) {
	switch b.form {
	case formOther:
	case formJSON:
		if len(p) > 0 {
			b.within = p[len(p)-1] != '\n'
		}
	case formProtobuf:
		const length = 4
		for len(p) > 0 {
			if b.left > 0 {
				n := min(b.left, len(p))
				b.left, p = b.left-n, p[n:]
				continue
			}
			n := min(length-len(b.head), len(p))
			b.head, p = append(b.head, p[:n]...), p[n:]
			if len(b.head) == length {
				b.left, b.head = int(binary.BigEndian.Uint32(b.head)), b.head[:0]
			}
		}
	}
}

// errorEvent returns the event for an error.
func errorEvent(f form, why error) ([]byte, error) {
	status := kube.StatusOf(why)
	if f == formJSON {
		text, err := json.Marshal(metav1.WatchEvent{Type: kube.Error.String(), Object: runtime.RawExtension{Object: &status}})
		return append(text, '\n'), err
	}
	raw, err := status.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a Status: %w", err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: status.APIVersion, Kind: status.Kind}, Raw: raw}
	object, err := unknown.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a Status: %w", err)
	}
	const magic = "k8s\x00" // before each object: runtime/serializer/protobuf
	event := metav1.WatchEvent{Type: kube.Error.String(), Object: runtime.RawExtension{Raw: append([]byte(magic), object...)}}
	body, err := event.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil //nolint:gosec // some hundred bytes
}
