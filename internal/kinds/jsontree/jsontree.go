// Package jsontree decodes JSON objects into trees of maps, slices and scalars, as
// sigs.k8s.io/json does, in half of the time, as long as nothing is unusual in them.
//
// A [Part] is what of
// an object is needed, where the rest need not be decoded. A [Reader] is for who knows what is in the object. [Names] are
// what is known of members.
package jsontree

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/kube/scan"
)

// Decode decodes any JSON object, the last of duplicate names winning. Errors: those of
// sigs.k8s.io/json.
func Decode(body []byte) (map[string]any, error) {
	if o, err := DecodePlain(body); err == nil {
		return o, nil
	}
	var o map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &o); err != nil {
		return nil, err
	}
	return o, nil
}

// ErrUnusual says that a body needs the slower decoder, which has Kubernetes' error
// texts.
var ErrUnusual = errors.New("not plainly readable")

// maxDepth is how deeply values may be nested; API objects are below 30.
const maxDepth = 1000

// DecodePlain decodes a JSON object that has nothing unusual in it: valid JSON without
// duplicate names, with numbers that an int64 holds, or fractions without an exponent and
// with at most 14 digits. It makes what
// sigs.k8s.io/json makes: maps, slices, strings, int64, float64, bool and nil. The strings
// share the memory of one copy of the body. Errors: ErrUnusual for any other body.
func DecodePlain(body []byte) (map[string]any, error) {
	d := decoder{Scanner: scan.Scanner{Data: body, MaxDepth: maxDepth}, text: string(body)}
	if d.Peek() != '{' {
		return nil, ErrUnusual
	}
	o, err := d.object()
	if err != nil || d.Peek() != 0 || d.Pos < len(body) {
		return nil, ErrUnusual
	}
	return o, nil
}

// decoder is a decoding under way.
type decoder struct {
	scan.Scanner
	text string // the whole body
}

func (d *decoder) value() (any, error) {
	switch d.Peek() {
	case '{':
		return d.object()
	case '[':
		return d.array()
	}
	t, err := d.Scalar()
	if err != nil {
		return nil, err
	}
	switch text := d.text[t.Start:t.End]; t.Kind {
	case scan.KindString:
		return d.string(t)
	case scan.KindNumber:
		return number(text)
	case scan.KindBool:
		return text == "true", nil
	case scan.KindNull:
		return nil, nil
	case scan.KindAbsent, scan.KindObject, scan.KindArray:
	}
	return nil, ErrUnusual
}

func (d *decoder) object() (map[string]any, error) {
	o := map[string]any{}
	more, err := d.Enter('}')
	for more && err == nil {
		if err = d.member(o); err == nil {
			more, err = d.Next('}')
		}
	}
	return o, err
}

// member reads a member into o. Duplicate names are unusual: the other decoder reports
// them.
func (d *decoder) member(o map[string]any) error {
	t, err := d.Key()
	if err != nil {
		return err
	}
	name, err := d.string(t)
	if err != nil {
		return err
	}
	value, err := d.value()
	if err != nil {
		return err
	}
	before := len(o)
	if o[name] = value; len(o) == before {
		return ErrUnusual
	}
	return nil
}

func (d *decoder) array() ([]any, error) {
	list := []any{}
	more, err := d.Enter(']')
	for more && err == nil {
		var item any
		if item, err = d.value(); err == nil {
			list = append(list, item)
			more, err = d.Next(']')
		}
	}
	return list, err
}

// string returns the value of a string. What is not UTF-8 is unusual.
func (d *decoder) string(t scan.Token) (string, error) {
	text := d.text[t.Start:t.End]
	switch {
	case t.Plain:
		return text, nil
	case bytes.IndexByte(d.Data[t.Start:t.End], '\\') < 0:
		if !utf8.ValidString(text) {
			return "", ErrUnusual
		}
		return text, nil
	}
	value, err := jsontext.AppendUnquote(nil, d.Data[t.Start-1:t.End+1])
	if err != nil {
		return "", ErrUnusual
	}
	return string(value), nil
}

// exactDigits is how many characters a fraction may have, so that its float64 is written
// with the same digits.
const exactDigits = 16

// number returns an int64, or a float64 from which the text can be made again. Others are
// unusual.
func number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && text != "-0" {
		return n, nil
	}
	if len(text) > exactDigits || strings.ContainsAny(text, "eE") {
		return nil, ErrUnusual
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n == 0 {
		return nil, ErrUnusual
	}
	return n, nil
}
