package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

// get answers one object.
func (s *Server) get(w http.ResponseWriter, r *http.Request, rt route) error {
	if kube.ParseBool(r.URL.Query(), "export") { // apiserver handlers/get.go
		return kube.BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	into, err := negotiate(r, verbGet)
	if err != nil {
		return err
	}
	p, err := newPainter(r, rt, into)
	if err != nil {
		return err
	}
	o, err := s.cfg.Reader.Get(r.Context(), rt.Target, r.URL.Query().Get("resourceVersion"))
	if err != nil {
		return err
	}
	body, err := p.object(o)
	if err != nil {
		return err
	}
	s.writeBody(w, into, answer{code: http.StatusOK, body: body})
	return nil
}

// list answers a collection.
func (s *Server) list(w http.ResponseWriter, r *http.Request, rt route) error {
	into, err := negotiate(r, verbList)
	if err != nil {
		return err
	}
	p, err := newPainter(r, rt, into)
	if err != nil {
		return err
	}
	o, err := kube.ParseListOptions(r.URL.Query(), false)
	if err != nil {
		return err
	}
	if err := kube.CheckFields(o.Fields, rt.Resource.Fields); err != nil {
		return err
	}
	l, err := s.cfg.Reader.List(r.Context(), rt.Target, o)
	if err != nil {
		return err
	}
	return s.writeList(r.Context(), w, into, p, l)
}

// writeList writes the items one by one, so that a list needs the same memory
// whatever its size. Only for a person (YAML, indented) it is put together first.
func (s *Server) writeList(ctx context.Context, w http.ResponseWriter, into rendering, p *painter, l *kube.List) error {
	head, err := p.listHead(l)
	if err != nil {
		return err
	}
	if into.format == formatYAML || into.pretty {
		var whole strings.Builder
		err := p.eachItem(l, head, func(b []byte) { whole.Write(b) })
		if err != nil {
			return err
		}
		s.writeBody(w, into, answer{code: http.StatusOK, body: []byte(whole.String())})
		return nil
	}
	if into.gzip && p.shape == shapeObject {
		s.listZipped(w, head, l)
		return nil
	}
	out := newCompressor(w, into.gzip)
	defer out.release()
	w.Header().Set("Content-Type", mediaJSON)
	if err := p.eachItem(l, head, out.Write); err != nil {
		if !out.begun() {
			return err
		}
		// An object that cannot be shown as a row: a part of a list must not look
		// like a list.
		s.logger.ErrorContext(ctx, "list was cut off", slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	out.Write([]byte("\n"))
	out.close()
	return nil
}

// listHead returns a list up to the bracket that opens its items.
func (p *painter) listHead(l *kube.List) ([]byte, error) {
	meta := metav1.ListMeta{ResourceVersion: l.ResourceVersion.String(), Continue: l.Continue, RemainingItemCount: l.Remaining}
	if l.Shard != "" {
		meta.ShardInfo = &metav1.ShardInfo{Selector: l.Shard}
	}
	if p.shape == shapeTable {
		return p.tableHead(meta)
	}
	metadata, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	kind, apiVersion := p.resource.ListKind, p.resource.APIVersion()
	if p.shape == shapePartial {
		kind, apiVersion = "PartialObjectMetadataList", p.apiVersion()
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind, apiVersion, metadata), nil
}

// eachItem passes the list on piece by piece.
func (p *painter) eachItem(l *kube.List, head []byte, write func([]byte)) error {
	write(head)
	var between []byte
	comma := []byte{','}
	for o := range l.Items {
		item, err := o.JSON(), error(nil)
		switch p.shape {
		case shapeTable:
			item, err = p.row(o)
		case shapePartial:
			item, err = p.partial(o)
		case shapeObject:
		}
		if err != nil {
			return err
		}
		write(between)
		write(item)
		between = comma
	}
	write([]byte("]}"))
	return nil
}
