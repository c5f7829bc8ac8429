package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// acceptTable is the Accept header of kubectl get, 1.20 to 1.37.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// seen is an object, as far as `gapless watch` needs it.
type seen struct {
	metav1.ObjectMeta `json:"metadata"`

	// Cells is set for tables only.
	Cells []any `json:"cells,omitempty"`
	// body is the object as the server sent it; not with tables.
	body []byte
}

// decodeSeen decodes an object, or a row that tables converted.
func decodeSeen(raw []byte) (*seen, error) {
	s := &seen{body: raw}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, &kube.DecodeError{Offset: -1, Why: err.Error()}
	}
	return s, nil
}

// plain is the backend that gets objects.
type plain struct {
	client *client.Client
	of     client.Collection
	labels string
	fields string
}

// narrow adds the selectors to the options of a request.
func (p *plain) narrow(o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector, o.FieldSelector = p.labels, p.fields
	return o
}

// List gets one page.
func (p *plain) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	return p.client.List(ctx, p.of, p.narrow(o), each)
}

// Watch opens a watch.
func (p *plain) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	w, err := p.client.Watch(ctx, p.of, p.narrow(o))
	if err != nil {
		return nil, err // and not a Stream around a nil pointer
	}
	return w, nil
}

// tables is the backend that gets the rows of tables, as the server prints them.
// A row becomes {"metadata":…,"cells":…}.
type tables struct {
	*plain

	columns func([]metav1.TableColumnDefinition)
}

// table has the fields of metav1.Table that are needed.
type table struct {
	Kind     string                         `json:"kind"`
	Metadata metav1.ListMeta                `json:"metadata"`
	Columns  []metav1.TableColumnDefinition `json:"columnDefinitions"`
	Rows     []struct {
		Cells  json.RawMessage `json:"cells"`
		Object struct {
			Metadata json.RawMessage `json:"metadata"`
		} `json:"object"`
	} `json:"rows"`
}

// row returns the i-th row as an object.
func (t *table) row(i int) []byte {
	orNull := func(raw json.RawMessage) []byte { return cmpOr(raw, []byte("null")) }
	return fmt.Appendf(nil, `{"metadata":%s,"cells":%s}`, orNull(t.Rows[i].Object.Metadata), orNull(t.Rows[i].Cells))
}

func cmpOr(raw, otherwise []byte) []byte {
	if len(raw) == 0 {
		return otherwise
	}
	return raw
}

// decode decodes a table and keeps its columns.
func (t *tables) decode(raw []byte) (*table, error) {
	var out table
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, &kube.DecodeError{Offset: -1, Why: err.Error()}
	}
	if out.Kind != "Table" {
		return nil, &kube.DecodeError{
			Offset: 0, Why: fmt.Sprintf("the server sent a %s instead of a table; try --output name or json", out.Kind),
		}
	}
	if len(out.Columns) > 0 {
		t.columns(out.Columns)
	}
	return &out, nil
}

// List gets one page.
func (t *tables) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	o = t.narrow(o)
	q, err := queryparams.Convert(&o)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("list options: %w", err)
	}
	resp, err := t.client.Do(ctx, client.Request{Path: t.of.Path(), Query: q, Accept: acceptTable})
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("list %s: %w", t.of, err)
	}
	page, err := t.decode(raw)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	for i := range page.Rows {
		if err := each(page.row(i)); err != nil {
			return page.Metadata, err
		}
	}
	return page.Metadata, nil
}

// Watch opens a watch of tables.
func (t *tables) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	o = t.narrow(o)
	o.Watch = true
	q, err := queryparams.Convert(&o)
	if err != nil {
		return nil, fmt.Errorf("list options: %w", err)
	}
	resp, err := t.client.Do(ctx, client.Request{Path: t.of.Path(), Query: q, Accept: acceptTable}) //nolint:bodyclose // Close of the stream does it
	if err != nil {
		return nil, err
	}
	return &rows{Watch: client.ReadWatch(resp), of: t}, nil //nolint:contextcheck // the answer has its request's context
}

// rows is a watch of tables, as one of objects.
type rows struct {
	*client.Watch

	of *tables
}

// Next returns the next row. A bookmark is in the metadata of its table, or, from
// some servers, in an object of its own.
func (r *rows) Next() (client.Frame, error) {
	f, err := r.Watch.Next()
	if err != nil || f.Type == 0 {
		return f, err
	}
	if f.Type == kube.Bookmark && !bytes.Contains(f.Object, []byte(`"Table"`)) {
		return f, nil
	}
	page, err := r.of.decode(f.Object)
	if err != nil {
		return client.Frame{Object: f.Object}, nil //nolint:nilerr // an undecodable event is no end of the stream
	}
	switch {
	case len(page.Rows) == 1 && len(page.Rows[0].Object.Metadata) > 0:
		f.Object = page.row(0)
	case f.Type == kube.Bookmark:
		f.Object = fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, page.Metadata.ResourceVersion)
	default:
		return client.Frame{Object: f.Object}, nil
	}
	return f, nil
}

// once keeps the columns that are set first.
type once struct {
	mu sync.Mutex
	// mu guards columns.
	columns []metav1.TableColumnDefinition
}

func (o *once) set(columns []metav1.TableColumnDefinition) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.columns == nil {
		o.columns = columns
	}
}

func (o *once) get() []metav1.TableColumnDefinition {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.columns
}
