package apiserver

import (
	"bytes"
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// pastHeader has the resourceVersion of the state of the past that is answered. Other servers ignore what asks for
// one, and answer with the present state: without this header.
const pastHeader = "Gapless-At"

// getPast answers one object as it was.
func (s *Server) getPast(w http.ResponseWriter, r *http.Request, q resolved, m wire.Moment) (*wire.Object, error) {
	if sub := q.Subresource; sub != "" && sub != "status" {
		return nil, wire.BadRequest("the past of %s has no subresource %q: ask for the object", q.Resource.GR(), sub)
	}
	o, rv, err := s.reader(q).GetPast(r.Context(), q.Target, m)
	if err == nil {
		w.Header().Set(pastHeader, rv.String())
	}
	return o, err
}

// reader serves the reads of a request.
func (s *Server) reader(q resolved) Reader {
	if q.reading != nil && q.reading.Reader != nil {
		return q.reading.Reader
	}
	return s.cfg.Reader
}

// changes answers with a page of the history of an object, or of a selection of a collection (docs/extensions.md).
func (s *Server) changes(w http.ResponseWriter, r *http.Request, q resolved) error {
	if q.Subresource != "" {
		return wire.BadRequest("changes of %s have no subresources", q.Resource.GR())
	}
	into, err := render.Negotiate(r, &q.Route)
	if err != nil {
		return err
	}
	if into.IsTable() || into.IsProtobuf() {
		return wire.NotAcceptable([]string{media.JSON, media.YAML})
	}
	renderer, err := render.New(&q.Route, into)
	if err != nil {
		return err
	}
	o, err := wire.ParseChangesOptions(q.Query)
	if err != nil {
		return err
	}
	page, err := s.reader(q).Changes(r.Context(), q.Target, o)
	if err != nil {
		return err
	}
	if audited := audit.From(r.Context()); audited.WantsResponse() {
		body, err := changeList(renderer.Plain(audited.DropsManagedFields()), page)
		if err != nil {
			return err
		}
		audited.Answered(body)
	}
	body, err := changeList(renderer, page)
	if err == nil {
		render.Write(w, into, http.StatusOK, body)
	}
	return err
}

// A changeListHead is a ChangeList without its items.
type changeListHead struct {
	metav1.TypeMeta `json:",inline"`

	Metadata metav1.ListMeta      `json:"metadata"`
	After    kube.ResourceVersion `json:"after,string"`
	UpTo     kube.ResourceVersion `json:"upTo,string"`
	Gaps     []changeGap          `json:"gaps,omitempty"`
}

type changeGap struct {
	After kube.ResourceVersion `json:"after,string"`
	UpTo  kube.ResourceVersion `json:"upTo,string"`
}

type changeItem struct {
	Type            string               `json:"type"` // of a watch event
	ResourceVersion kube.ResourceVersion `json:"resourceVersion,string"`
	Time            string               `json:"time"` // RFC 3339 with milliseconds, UTC
	Object          json.RawMessage      `json:"object"`
	Previous        json.RawMessage      `json:"previous,omitempty"`
}

// changeList is a page as JSON.
func changeList(renderer *render.Renderer, page *wire.Changes) ([]byte, error) {
	head := changeListHead{
		TypeMeta: metav1.TypeMeta{Kind: "ChangeList", APIVersion: "gapless.io/v1"},
		Metadata: metav1.ListMeta{ResourceVersion: page.UpTo.String()},
		After:    page.After, UpTo: page.UpTo,
	}
	if !page.Next.IsZero() {
		head.Metadata.Continue = page.Next.Encode()
	}
	for _, g := range page.Gaps {
		head.Gaps = append(head.Gaps, changeGap(g))
	}
	begin, err := json.Marshal(head)
	if err != nil {
		return nil, wire.Internal(err)
	}
	var body bytes.Buffer
	body.Write(begin[:len(begin)-1])
	body.WriteString(`,"items":[`)
	for i := range page.Items {
		item, err := itemOf(renderer, &page.Items[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(item)
	}
	body.WriteString("]}")
	return body.Bytes(), nil
}

func itemOf(renderer *render.Renderer, c *wire.Change) ([]byte, error) {
	item := changeItem{
		Type: c.Type.String(), ResourceVersion: c.ResourceVersion, Time: c.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	}
	var err error
	if item.Object, err = renderer.Object(c.Object); err != nil {
		return nil, err
	}
	item.Object = bytes.Clone(item.Object) // the renderer's memory
	if c.Previous != nil {
		if item.Previous, err = renderer.Object(c.Previous); err != nil {
			return nil, err
		}
	}
	encoded, err := json.Marshal(item)
	if err != nil {
		return nil, wire.Internal(err)
	}
	return encoded, nil
}

// ReadsPast reports whether a request for one object is about its past, which a mirror has.
func ReadsPast(rt *route.Route) bool {
	return wire.AsksForChanges(rt.Query) || rt.Query.Has("at") || rt.Query.Get("resourceVersionMatch") == string(wire.MatchExact)
}
