package listwatchtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
)

// codec writes an answer in one encoding.
type codec interface {
	contentType() string
	list(p page) []byte
	frame(event string, object []byte) []byte
}

// kind returns the kind of the objects.
func (s *Server) kind() string { return cmp.Or(s.Kind, "Thing") }

// codec returns the codec for the answer to r.
func (s *Server) codec(r Request, f Fault) codec {
	if s.Scheme == nil {
		return plain{s.kind(), r.Metadata && s.ServesMetadata}
	}
	return s.serializer(r, f)
}

// plain writes the JSON of Server.Render, or what is metadata of it.
type plain struct {
	kind    string
	partial bool
}

func (plain) contentType() string { return "application/json" }

func (c plain) list(p page) []byte {
	if !c.partial {
		return p.json(metav1.TypeMeta{Kind: c.kind, APIVersion: "v1"})
	}
	items := make([][]byte, len(p.items))
	for i, item := range p.items {
		items[i] = partialJSON(item)
	}
	p.items = items
	return p.json(partialType())
}

func (c plain) frame(event string, object []byte) []byte {
	if c.partial && event != "ERROR" {
		object = partialJSON(object)
	}
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", event, object)
}

// partialType is the type of objects with metadata only.
func partialType() metav1.TypeMeta {
	return metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
}

// partialJSON returns an object's metadata, or what is no object as it is.
func partialJSON(raw []byte) []byte {
	var of struct {
		metav1.TypeMeta `json:",inline"`

		Metadata json.RawMessage `json:"metadata"`
	}
	if json.Unmarshal(raw, &of) != nil {
		return raw
	}
	of.TypeMeta = partialType()
	partial, err := json.Marshal(of)
	if err != nil {
		return raw
	}
	return partial
}

// ServeHTTP answers LIST and WATCH requests at every path. A path with
// /namespaces/NAME/ selects a namespace.
func (s *Server) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	r := requestOver(req)
	f := s.faultOf(r, nil)
	if r.Watch {
		s.serveWatch(rw, req, r, f)
		return
	}
	p, err := s.list(req.Context(), r, f)
	if err != nil {
		refuse(rw, req, err)
		return
	}
	c := s.codec(r, f)
	rw.Header().Set("Content-Type", c.contentType())
	body := c.list(p)
	if f.Raw != "" {
		body = []byte(f.Raw)
	}
	_, _ = rw.Write(body)
	if p.ends() {
		_ = http.NewResponseController(rw).Flush()
		if p.End == "silent" {
			<-req.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}
}

// refuse answers with an error.
func refuse(rw http.ResponseWriter, req *http.Request, err error) {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || req.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	rw.Header().Set("Content-Type", "application/json")
	if d := status.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		rw.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	rw.WriteHeader(int(status.ErrStatus.Code))
	_, _ = rw.Write(statusJSON(status.ErrStatus))
}

func statusJSON(s metav1.Status) []byte {
	body, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return body
}

func (s *Server) serveWatch(rw http.ResponseWriter, req *http.Request, r Request, f Fault) {
	w, err := s.watch(req.Context(), r, f, nil)
	if err != nil {
		refuse(rw, req, err)
		return
	}
	defer w.close()
	c := s.codec(r, f)
	rw.Header().Set("Content-Type", c.contentType())
	rw.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(rw).Flush
	if f.Raw != "" {
		_, _ = io.WriteString(rw, f.Raw)
		return
	}
	_ = flush()
	for {
		frame, err := w.next(req.Context())
		if err != nil {
			writeEnd(req.Context(), rw, c, frame, err)
			return
		}
		if _, err := rw.Write(encode(c, frame)); err != nil {
			return
		}
		if !w.ready() {
			_ = flush()
		}
	}
}

func encode(c codec, frame client.Frame) []byte { return c.frame(frame.Type.String(), frame.Object) }

// writeEnd writes the end of a watch, and aborts the connection unless the end is clean.
func writeEnd(ctx context.Context, rw http.ResponseWriter, c codec, frame client.Frame, err error) {
	switch status, is := errors.AsType[*apierrors.StatusError](err); {
	case is:
		_, _ = rw.Write(c.frame("ERROR", statusJSON(status.ErrStatus)))
		return
	case errors.Is(err, io.EOF):
		return
	case errors.Is(err, errHalf):
		line := encode(c, frame)
		_, _ = rw.Write(line[:len(line)/2])
	case errors.Is(err, errGarbage):
		_, _ = io.WriteString(rw, "{\"type\":}}}\n")
	}
	_ = http.NewResponseController(rw).Flush()
	if errors.Is(err, errSilent) {
		<-ctx.Done()
	}
	panic(http.ErrAbortHandler)
}
