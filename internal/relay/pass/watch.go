package pass

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/wire"
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
	events events // nil: formOther
}

// errEnded keeps the rest of upstream's answer from the client.
var errEnded = errors.New("the watch has ended")

// Unwrap is for http.ResponseController.
func (w *watchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *watchWriter) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
	if code >= http.StatusOK {
		w.begun, w.form = true, formOf(code, w.Header())
		w.events = w.form.events()
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
	switch {
	case w.form == formOther:
	case w.wanted: // it was not between two events, or it would be over
		part = p[:w.events.next(p)]
	default:
		lastEnd(w.events, p)
	}
	n, err := w.ResponseWriter.Write(part)
	if err != nil {
		w.form = formOther // nothing can be added
		return n, err
	}
	if len(part) == len(p) && !w.wanted {
		return n, nil
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

// errorEvent returns the event for an error.
func errorEvent(f form, why error) ([]byte, error) {
	status := wire.StatusOf(why)
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
