package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// painter makes tables and partial objects of one resource for one answer.
type painter struct {
	resource *schema.Resource
	shape    shape
	version  string // of meta.k8s.io
	include  metav1.IncludeObjectPolicy
	now      time.Time
	// columnsSent: on a watch only the first table has column definitions
	// (server.md 3.1).
	columnsSent bool
}

// newPainter reads includeObject, which is of tables only. Errors: 400.
func newPainter(r *http.Request, rt route, into rendering) (*painter, error) {
	p := &painter{resource: rt.Resource, shape: into.shape, version: into.version, include: metav1.IncludeMetadata, now: time.Now()}
	if p.shape != shapeTable {
		return p, nil
	}
	switch include := metav1.IncludeObjectPolicy(r.URL.Query().Get("includeObject")); include {
	case "":
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		p.include = include
	default:
		return nil, kube.BadRequest("unrecognized includeObject value: %q", include)
	}
	return p, nil
}

func (p *painter) apiVersion() string { return "meta.k8s.io/" + p.version }

// object returns o in the wanted shape; a table has one row.
func (p *painter) object(o *kube.Object) ([]byte, error) {
	switch p.shape {
	case shapePartial:
		return p.partial(o)
	case shapeTable:
		row, err := p.row(o)
		if err != nil {
			return nil, err
		}
		head, err := p.tableHead(metav1.ListMeta{ResourceVersion: o.ResourceVersion().String()})
		if err != nil {
			return nil, err
		}
		return append(append(head, row...), "]}"...), nil
	case shapeObject:
	}
	return o.JSON(), nil
}

// partial returns o as a PartialObjectMetadata.
func (p *painter) partial(o *kube.Object) ([]byte, error) {
	var whole struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(o.JSON(), &whole); err != nil {
		return nil, fmt.Errorf("read the metadata of %s: %w", o.Key(), err)
	}
	body := fmt.Appendf(make([]byte, 0, len(whole.Metadata)+96), `{"kind":"PartialObjectMetadata","apiVersion":%q,"metadata":`, p.apiVersion())
	return append(append(body, whole.Metadata...), '}'), nil
}

// tableHead returns a table up to the bracket that opens its rows.
func (p *painter) tableHead(meta metav1.ListMeta) ([]byte, error) {
	metadata, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	columns := []byte("null")
	if !p.columnsSent {
		if columns, err = json.Marshal(p.resource.Columns); err != nil {
			return nil, fmt.Errorf("encode columns of %s: %w", p.resource.GR(), err)
		}
		p.columnsSent = true
	}
	return fmt.Appendf(nil, `{"kind":"Table","apiVersion":%q,"metadata":%s,"columnDefinitions":%s,"rows":[`, p.apiVersion(), metadata, columns), nil
}

// row returns one row of a table.
func (p *painter) row(o *kube.Object) ([]byte, error) {
	cells, err := json.Marshal(p.resource.Row(o, p.now))
	if err != nil {
		return nil, fmt.Errorf("encode cells of %s: %w", o.Key(), err)
	}
	object := []byte("null")
	switch p.include {
	case metav1.IncludeObject:
		object = o.JSON()
	case metav1.IncludeMetadata:
		if object, err = p.partial(o); err != nil {
			return nil, err
		}
	case metav1.IncludeNone:
	}
	return fmt.Appendf(make([]byte, 0, len(cells)+len(object)+24), `{"cells":%s,"object":%s}`, cells, object), nil
}
