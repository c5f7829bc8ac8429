package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

// maxValue is how large one item or frame may be before the client
// returns an error: 16 MiB, far above what API servers accept (MaxRequestBodyBytes, 3 MiB) and what
// etcd stores (1.5 MiB, 10 MiB with a higher --max-request-bytes).
const maxValue = 16 << 20

// List gets one page and calls each for every item as it arrives. An item is encoded in
// protobuf if the Form asks for it, otherwise in JSON; each may keep it. The page is
// never held in memory as a whole. The metadata (resource version, continue token) is
// complete only when List returns. List stops at the first error of each and returns it.
// Errors: those of Do; *kube.DecodeError and the decoder's for an answer that is not a
// list, with ErrProtobuf if it was protobuf.
func (c *Client) List(ctx context.Context, of Collection, o metav1.ListOptions,
	each func(item []byte) error,
) (metav1.ListMeta, error) {
	return c.ListLent(ctx, of, o, func(item []byte) error { return each(bytes.Clone(item)) })
}

// ListLent is List without a copy of each item: the bytes are valid only until each
// returns.
func (c *Client) ListLent(ctx context.Context, of Collection, o metav1.ListOptions,
	each func(item []byte) error,
) (metav1.ListMeta, error) {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	resp, err := c.Do(ctx, Request{Path: of.Path(), Query: of.query(o), Accept: c.form.accept(partial + "List")})
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("list %s: %w", of, err)
	}
	defer resp.Body.Close()
	written, err := c.form.encodingOf(resp)
	var meta metav1.ListMeta
	switch {
	case err != nil:
	case written == inProtobuf:
		meta, err = decodeProtobufList(resp.Body, c.form, each)
	default:
		meta, err = decodeList(resp.Body, c.form, each)
	}
	if err != nil {
		return meta, fmt.Errorf("list %s: %w", of, causeOf(ctx, err))
	}
	return meta, nil
}

// DecodeList reads a list in one pass; see Client.List. It understands members in
// any order.
func DecodeList(r io.Reader, each func(item []byte) error) (metav1.ListMeta, error) {
	return decodeList(r, Form{}, func(item []byte) error { return each(bytes.Clone(item)) })
}

// decodeList lends each item until each returns.
func decodeList(r io.Reader, form Form, each func(item []byte) error) (metav1.ListMeta, error) {
	limited := &valueReader{r: r, left: maxValue}
	d := listDecoder{dec: jsontext.NewDecoder(limited, lenient()), limit: limited, form: form, each: each}
	err := d.list()
	if err != nil {
		return d.meta, whole(d.broken(err))
	}
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return d.meta, &kube.DecodeError{Offset: int(d.dec.InputOffset()), Why: "there is something behind the list"}
	}
	return d.meta, nil
}

type listDecoder struct {
	dec   *jsontext.Decoder
	limit *valueReader
	form  Form
	kind  string
	// version is the list's apiVersion.
	version string
	each    func([]byte) error
	meta    metav1.ListMeta

	typed   []byte // the item that is lent, with what it is
	refused error  // by each
}

func (d *listDecoder) list() error {
	if d.dec.PeekKind() != '{' {
		if _, err := d.dec.ReadToken(); err != nil {
			return err
		}
		return d.wrong("the answer is no list")
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	hasItems := false
	for d.dec.PeekKind() == '"' {
		name, err := d.dec.ReadToken()
		if err != nil {
			return err
		}
		switch name.String() {
		case "items":
			hasItems = true
			err = d.items()
		case "metadata":
			err = d.decode(&d.meta)
		case "kind":
			if err = d.decode(&d.kind); err == nil && d.kind != "" && !strings.HasSuffix(d.kind, "List") {
				err = d.wrong("the answer is a " + d.kind + ", no list")
			}
			if err == nil {
				err = d.form.checkKind(partial+"List", d.kind) // before the items, if they come later
			}
		case "apiVersion":
			err = d.decode(&d.version)
		default:
			err = d.dec.SkipValue()
		}
		if err != nil {
			return err
		}
		d.limit.left = maxValue
	}
	if _, err := d.dec.ReadToken(); err != nil { // the closing brace, or what is wrong
		return err
	}
	if !hasItems {
		return d.wrong("the answer has no items")
	}
	return d.form.checkKind(partial+"List", d.kind)
}

func (d *listDecoder) items() error {
	begin, err := d.dec.ReadToken()
	if err != nil {
		return err
	}
	if begin.Kind() == jsontext.KindNull {
		return nil
	}
	if begin.Kind() != jsontext.KindBeginArray {
		return d.wrong("items is no array")
	}
	for {
		if kind := d.dec.PeekKind(); kind == jsontext.KindEndArray || kind == jsontext.KindInvalid {
			_, err := d.dec.ReadToken() // the end, or what is wrong
			return err
		}
		item, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		d.limit.left = maxValue
		if d.form.Typed {
			d.typed = appendTyped(d.typed[:0], item, d.kind, d.version)
			item = d.typed
		}
		if d.refused = d.each(item); d.refused != nil {
			return d.refused
		}
	}
}

func (d *listDecoder) decode(into any) error {
	value, err := d.dec.ReadValue()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(value, into, lenient()); err != nil {
		return d.wrong(err.Error())
	}
	return nil
}

// broken says what err is unless it is the receiver's own.
func (d *listDecoder) broken(err error) error {
	if d.refused != nil {
		return d.refused
	}
	return d.limit.blame(err)
}

func (d *listDecoder) wrong(why string) error {
	return &kube.DecodeError{Offset: int(d.dec.InputOffset()), Why: why}
}

// whole turns the end of input in the middle of something into what it is.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// valueReader ends with an error when one value is longer than maxValue; who reads
// values sets left back.
type valueReader struct {
	r    io.Reader
	left int
	err  error // of r, if it was no clean end
}

// blame returns what broke: the decoder calls a broken connection in the middle of
// a value bad syntax.
func (v *valueReader) blame(err error) error {
	if v.err != nil {
		return v.err
	}
	return err
}

func (v *valueReader) Read(p []byte) (int, error) {
	if v.left <= 0 {
		return 0, &kube.DecodeError{Offset: -1, Why: fmt.Sprintf("a value of more than %d bytes", maxValue)}
	}
	n, err := v.r.Read(p)
	v.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		v.err = err
	}
	return n, err
}
