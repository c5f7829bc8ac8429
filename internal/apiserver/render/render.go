// Package render turns objects and lists into the bodies of answers.
//
// A [Form] is what a client asks for: JSON, YAML or protobuf, whole
// objects, a Table, or metadata only. A [Renderer] turns the objects of one answer, or of
// one watch, into its form. [Lists] writes lists, and keeps compressed blocks of them for the next
// list.
//
// zip.go compresses lists, with package blockzip.
package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Renderer turns objects of one resource into a form, for one answer or one watch. It is
// used by one goroutine.
type Renderer struct {
	resource *kinds.Resource
	scale    bool // it renders scales of the resource
	list     bool // it renders what was read, and not what a write has made of it
	format   format
	shape    shape
	version  string // of meta.k8s.io
	// partialHead is what precedes the metadata of a PartialObjectMetadata, end what follows
	// it, and a row.
	partialHead, end []byte
	parts            [][]byte // of the object that is written
	drops            bool     // objects have no managed fields
	include          metav1.IncludeObjectPolicy
	cells            func(o *wire.Object) []any // of a row of a table
	now              time.Time
	// columnsSent: on a watch only the first table has column definitions.
	columnsSent bool
	shared      *Shared // of the events of all watches; nil: none

	blocks    *blockzip.Cache // of the heads of rows; nil: they are not kept
	headsForm string          // of the blocks
	ids       []uint64        // of the items of a block
	history   string          // of the list, in the form of its blocks; see wire.List
	aged      [ageBytes]byte  // the mark of ageText
	agedAt    time.Time       // when ageText was true
	ageText   []byte

	headType  kube.EventType // the type that head is of
	headSize  int            // the size that head is of, in protobuf
	head      []byte         // of the last frame
	tail      []byte
	beginning []byte // of the envelopes of frames
}

// New returns a renderer for the answer to a request. It reads includeObject, which
// applies to tables only. Errors: 400.
func New(rt *route.Route, into Form) (*Renderer, error) {
	p := &Renderer{
		resource: rt.Resource, scale: rt.Subresource == "scale", list: rt.Verb == route.List,
		format: into.format, shape: into.shape, version: into.version, drops: into.drops,
		include: metav1.IncludeMetadata, now: time.Now(), end: []byte("}"),
	}
	if p.shape != shapeTable {
		return p, nil
	}
	p.cells = rt.Resource.Row
	if p.scale {
		p.cells = scaleRow
	}
	switch include := metav1.IncludeObjectPolicy(rt.Query.Get("includeObject")); include {
	case "":
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		p.include = include
	default:
		return nil, wire.BadRequest("unrecognized includeObject value: %q", include)
	}
	return p, nil
}

// Whole reports whether the form of an object is its own JSON.
func (r *Renderer) Whole() bool {
	return r.shape == shapeObject && r.format != formatProtobuf && !r.drops
}

// seen returns an object as the client wants to see it. What is kept for several clients is
// kept for the object, and not for the result, which each call makes anew.
func (r *Renderer) seen(o *wire.Object) *wire.Object {
	if r.drops {
		return o.WithoutManagedFields()
	}
	return o
}

// Share makes Event share what it renders with the watches of other renderers, and lists
// use it.
func (r *Renderer) Share(s *Shared) { r.shared = s }

// Plain returns a renderer of the same objects, tables or metadata as JSON that is not
// compressed, for the audit log.
func (r *Renderer) Plain(dropsManagedFields bool) *Renderer {
	return &Renderer{
		resource: r.resource, scale: r.scale, list: r.list, shape: r.shape, version: r.version,
		drops: r.drops || dropsManagedFields, include: r.include, cells: r.cells, now: r.now, end: []byte("}"),
	}
}

// Event returns the object of a watch event in the form, which must not be changed; ages
// in a table are as of now, or of the same second. In protobuf it is the message without
// its envelope; see Frame.
func (r *Renderer) Event(o *wire.Object) ([]byte, error) {
	if r.format == formatProtobuf {
		return r.eventMessage(o)
	}
	r.now = time.Now()
	if r.shared == nil || r.shape == shapeTable && !r.columnsSent {
		return r.Object(o)
	}
	return r.shared.event(r, o)
}

// Resource returns the resource whose objects are rendered.
func (r *Renderer) Resource() *kinds.Resource { return r.resource }

func (r *Renderer) apiVersion() string { return "meta.k8s.io/" + r.version }

// Object returns o in the form; a table has one row.
func (r *Renderer) Object(o *wire.Object) ([]byte, error) {
	if r.format == formatProtobuf {
		return r.envelope(o)
	}
	switch r.shape {
	case shapePartial:
		return r.partial(o), nil
	case shapeTable:
		row, err := r.row(o)
		if err != nil {
			return nil, err
		}
		head, err := r.tableHead(metav1.ListMeta{ResourceVersion: o.ResourceVersion().String()})
		if err != nil {
			return nil, err
		}
		return append(append(head, row...), "]}"...), nil
	case shapeObject, shapes:
	}
	return r.seen(o).JSON(), nil
}

// Parts returns o in the form as Object does, in pieces that need not be put together.
func (r *Renderer) Parts(o *wire.Object) ([][]byte, error) {
	if r.shape == shapeObject && r.format != formatProtobuf {
		return r.seen(o).Parts(make([][]byte, 0, usualParts)), nil
	}
	whole, err := r.Object(o)
	return [][]byte{whole}, err
}

// usualParts is how many parts an object with two managers has.
const usualParts = 5

// partial returns o as a PartialObjectMetadata.
func (r *Renderer) partial(o *wire.Object) []byte {
	var parts [usualParts][]byte
	size := 96
	for _, p := range r.seen(o).MetadataParts(parts[:0]) {
		size += len(p)
	}
	body := make([]byte, 0, size)
	r.writePartial(o, func(p []byte) { body = append(body, p...) })
	return body
}

// writePartial writes o as a PartialObjectMetadata.
func (r *Renderer) writePartial(o *wire.Object, write func([]byte)) {
	if r.partialHead == nil {
		r.partialHead = fmt.Appendf(nil, `{"kind":"PartialObjectMetadata","apiVersion":%q,"metadata":`, r.apiVersion())
	}
	write(r.partialHead)
	r.parts = r.seen(o).MetadataParts(r.parts[:0])
	r.writeParts(write)
	write(r.end)
}

// tableHead returns a table up to the bracket that opens its rows.
func (r *Renderer) tableHead(meta metav1.ListMeta) ([]byte, error) {
	metadata, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	columns := []byte("null")
	if !r.columnsSent {
		if columns, err = json.Marshal(r.columns()); err != nil {
			return nil, fmt.Errorf("encode columns of %s: %w", r.resource.GR(), err)
		}
		r.columnsSent = true
	}
	return fmt.Appendf(nil, `{"kind":"Table","apiVersion":%q,"metadata":%s,"columnDefinitions":%s,"rows":[`, r.apiVersion(),
		metadata, columns), nil
}

// conditions returns the member of a row with its conditions and a comma, or nothing.
func (r *Renderer) conditions(o *wire.Object) ([]byte, error) {
	if r.resource.RowConditions == nil || r.scale {
		return nil, nil
	}
	all := r.resource.RowConditions(o)
	if len(all) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode conditions of %s: %w", o.Key(), err)
	}
	return fmt.Appendf(nil, `"conditions":%s,`, encoded), nil
}

// columns are those of the rows.
func (r *Renderer) columns() []metav1.TableColumnDefinition {
	if !r.scale {
		return r.resource.Columns
	}
	// kubernetes pkg/printers/internalversion/printers.go scaleColumnDefinitions, and
	// apiextensions apiserver/helpers.go getScaleColumnsForVersion.
	desired, available, age := autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"],
		autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"], "string"
	if r.resource.Custom {
		desired, available, age = "Number of desired replicas", "Number of actual replicas", "date"
	}
	columns := kinds.DefaultColumns(age)
	return slices.Insert(columns, 1,
		metav1.TableColumnDefinition{Name: "Desired", Type: "integer", Description: desired},
		metav1.TableColumnDefinition{Name: "Available", Type: "integer", Description: available})
}

// scaleRow computes the cells of a scale.
func scaleRow(o *wire.Object) []any {
	var s autoscalingv1.Scale
	if err := json.Unmarshal(o.JSON(), &s); err != nil {
		return []any{o.Key().Name, nil, nil, kinds.Age(o.Created())}
	}
	return []any{s.Name, s.Spec.Replicas, s.Status.Replicas, kinds.Age(o.Created())}
}
