package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire/texts"
	"github.com/gapless-io/gapless/kube"
	"github.com/gapless-io/gapless/kube/scan"
)

// maxSelectable is how many selectable fields a resource may have: one bit each.
// Custom resources may declare 8 (apiextensions MaxSelectableFields).
const maxSelectable = 64

// ParseObject reads an object as it was received, with its resourceVersion; one
// that has none gets 0. The bytes are copied; white space is kept, except that
// the object is put on one line. It accepts what encoding/json accepts. Errors:
// *DecodeError.
func ParseObject(raw []byte, sel []FieldPath) (*Object, error) {
	return parse(bytes.Clone(raw), sel)
}

// NewObject reads the stored form of an object (JSON without
// metadata.resourceVersion) and stamps rv into a copy of the bytes. Errors:
// *DecodeError, also for an object without metadata.
func NewObject(value []byte, rv kube.ResourceVersion, sel []FieldPath) (*Object, error) {
	return NewSharing(value, rv, sel, nil)
}

// NewSharing is NewObject with Share, if texts are given: the bytes are copied once.
func NewSharing(value []byte, rv kube.ResourceVersion, sel []FieldPath, with *texts.Set) (*Object, error) {
	o, err := Unstamped(value, sel)
	if err != nil {
		return nil, err
	}
	var raw []byte
	if with != nil {
		room := len(`"resourceVersion":"",`) + len(strconv.FormatUint(uint64(rv), 10))
		if raw, o.shared = o.split(with.Text, room); raw != nil {
			o.raw = raw
		}
	}
	o.stamp(rv, raw != nil)
	return o, nil
}

// parse makes an Object over raw itself.
func parse(raw []byte, sel []FieldPath) (*Object, error) {
	raw, err := oneLine(raw)
	if err != nil {
		return nil, err
	}
	// The buffers live here and not in parser, so that all of it stays on the stack.
	var labelBuf [8]labelTokens
	var fieldBuf [8]scan.Token
	p := parser{scanner: newScanner(raw), paths: sel, labels: labelBuf[:0], fields: fieldBuf[:0]}
	if err := p.root(); err != nil {
		return nil, decodeError(err)
	}
	if p.ambiguous {
		if raw, err = rewrite(raw); err != nil {
			return nil, err
		}
		p = parser{scanner: newScanner(raw), paths: sel, labels: labelBuf[:0], fields: fieldBuf[:0]}
		if err := p.root(); err != nil {
			return nil, decodeError(err)
		}
	}
	return p.object()
}

func oneLine(raw []byte) ([]byte, error) {
	raw = bytes.Trim(raw, " \t\r\n")
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw, nil
	}
	var out bytes.Buffer
	out.Grow(len(raw))
	if err := json.Compact(&out, raw); err != nil {
		return nil, &kube.DecodeError{Offset: -1, Why: err.Error()}
	}
	return out.Bytes(), nil
}

// rewrite encodes an object afresh whose members cannot be replaced in place:
// one of them occurs twice (the last one counts), or is null, or has escapes.
func rewrite(raw []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil {
		return nil, &kube.DecodeError{Offset: -1, Why: err.Error()}
	}
	if meta, is := tree["metadata"].(map[string]any); is && meta["resourceVersion"] == nil {
		delete(meta, "resourceVersion")
	}
	if tree["apiVersion"] == nil {
		delete(tree, "apiVersion")
	}
	return encodeRoot(tree, nil)
}

// parser is one pass over an object. What it found are tokens; strings are made
// at the end.
type parser struct {
	scanner
	paths []FieldPath

	apiVersion, kind, name, namespace, uid            scan.Token
	resourceVersion, generation, created, deleted     scan.Token
	labels                                            []labelTokens
	fields                                            []scan.Token // parallel to paths
	at                                                offsets
	seenMetadata, seenAPIVersion, seenResourceVersion bool
	// ambiguous says that the bytes cannot be replaced in place; see rewrite.
	ambiguous bool
	owned     bool // metadata.ownerReferences is neither missing nor empty
}

type labelTokens struct{ key, value scan.Token }

// offsets say where an object's bytes can be replaced. A zero offset means that
// the member is not there.
type offsets struct {
	apiVersion, apiVersionEnd int  // the text of apiVersion, without quotes
	metadata                  int  // just after metadata's '{'
	rv, rvEnd                 int  // the digits of metadata.resourceVersion
	cut, cutEnd               int  // the whole member with one comma
	managed                   int  // the value of metadata.managedFields
	after                     int  // how many bytes follow metadata: see shared
	bareMetadata              bool // metadata is {}
}

func (p *parser) root() error {
	if len(p.paths) > maxSelectable {
		return p.fail("more selectable fields than " + strconv.Itoa(maxSelectable))
	}
	for range p.paths {
		p.fields = append(p.fields, scan.Token{})
	}
	if p.Peek() != '{' {
		return p.fail("the object is not a JSON object")
	}
	all := uint64(1)<<len(p.paths) - 1
	more, err := p.Enter('}')
	for more && err == nil {
		if err = p.rootMember(all); err == nil {
			more, err = p.Next('}')
		}
	}
	if p.Peek(); err == nil && p.Pos != len(p.Data) {
		return p.fail("more than one JSON value")
	}
	return err
}

func (p *parser) rootMember(all uint64) error {
	keyToken, err := p.Key()
	if err != nil {
		return err
	}
	key := p.value(keyToken)
	mask := p.matching(all, 0, key)
	switch string(key) {
	case "metadata":
		p.ambiguous = p.ambiguous || p.seenMetadata
		p.seenMetadata = true
		return p.metadata(mask)
	case "apiVersion":
		p.ambiguous = p.ambiguous || p.seenAPIVersion
		p.seenAPIVersion = true
		p.apiVersion, err = p.stringMember("apiVersion", mask, 0)
		p.at.apiVersion, p.at.apiVersionEnd = p.apiVersion.Start, p.apiVersion.End
		p.ambiguous = p.ambiguous || p.apiVersion.Kind == scan.KindAbsent
		return err
	case "kind":
		p.kind, err = p.stringMember("kind", mask, 0)
		return err
	}
	_, err = p.selectable(mask, 0)
	return err
}

func (p *parser) metadata(mask uint64) error {
	switch p.Peek() {
	case '{':
	case 'n':
		_, err := p.Scalar()
		return err
	default:
		return p.fail("metadata is not an object")
	}
	p.at.metadata = p.Pos + 1
	more, err := p.Enter('}')
	p.at.bareMetadata = !more
	comma := 0 // of the member before
	for more && err == nil {
		if err = p.metadataMember(mask, comma); err == nil {
			p.Peek()
			comma = p.Pos
			more, err = p.Next('}')
		}
	}
	p.at.after = len(p.Data) - p.Pos
	return err
}

func (p *parser) metadataMember(mask uint64, comma int) error {
	p.Peek()
	start := p.Pos
	keyToken, err := p.Key()
	if err != nil {
		return err
	}
	key := p.value(keyToken)
	sub := p.matching(mask, 1, key)
	switch string(key) {
	case "name":
		p.name, err = p.stringMember("metadata.name", sub, 1)
	case "namespace":
		p.namespace, err = p.stringMember("metadata.namespace", sub, 1)
	case "uid":
		p.uid, err = p.stringMember("metadata.uid", sub, 1)
	case "creationTimestamp":
		p.created, err = p.stringMember("metadata.creationTimestamp", sub, 1)
	case "deletionTimestamp":
		p.deleted, err = p.stringMember("metadata.deletionTimestamp", sub, 1)
	case "generation":
		p.generation, err = p.selectable(sub, 1)
	case "resourceVersion":
		p.ambiguous = p.ambiguous || p.seenResourceVersion
		p.seenResourceVersion = true
		p.resourceVersion, err = p.stringMember("metadata.resourceVersion", sub, 1)
		p.place(start, comma)
	case "managedFields":
		p.Peek()
		p.at.managed = p.Pos
		_, err = p.selectable(sub, 1)
	case "labels":
		return p.labelSet(sub)
	case "ownerReferences":
		var t scan.Token
		t, err = p.selectable(sub, 1)
		p.owned = t.Kind == scan.KindArray && t.End-t.Start > len("[]")
	default:
		_, err = p.selectable(sub, 1)
	}
	return err
}

// place records the position of the resourceVersion, once it has been read.
func (p *parser) place(start, comma int) {
	t := p.resourceVersion
	p.ambiguous = p.ambiguous || t.Kind == scan.KindAbsent || !t.Plain
	p.at.rv, p.at.rvEnd = t.Start, t.End
	p.at.cut, p.at.cutEnd = start, p.Pos
	after := scan.Scanner{Data: p.Data, Pos: p.Pos}
	switch {
	case after.Peek() == ',':
		p.at.cutEnd = after.Pos + 1
	case comma > 0:
		p.at.cut = comma
	}
}

// stringMember reads a value that must be a string or null; null is absent.
func (p *parser) stringMember(name string, mask uint64, depth int) (scan.Token, error) {
	p.Peek()
	start := p.Pos
	t, err := p.selectable(mask, depth)
	switch {
	case err != nil:
		return scan.Token{}, err
	case t.Kind == scan.KindNull:
		return scan.Token{}, nil
	case t.Kind != scan.KindString:
		return scan.Token{}, &kube.DecodeError{Offset: start, Why: name + " is not a string"}
	}
	return t, nil
}

func (p *parser) labelSet(mask uint64) error {
	p.labels = p.labels[:0]
	start := p.Pos
	if mask != 0 {
		if _, err := p.selectable(mask, 1); err != nil {
			return err
		}
		p.Pos = start
	}
	switch p.Peek() {
	case '{':
	case 'n':
		_, err := p.Scalar()
		return err
	default:
		return p.fail("metadata.labels is not an object")
	}
	more, err := p.Enter('}')
	for more && err == nil {
		var l labelTokens
		if l.key, err = p.Key(); err != nil {
			return err
		}
		if l.value, err = p.stringMember("a value in metadata.labels", 0, 2); err != nil {
			return err
		}
		p.labels = append(p.labels, l)
		more, err = p.Next('}')
	}
	return err
}

// matching returns those of mask whose path has key at depth, and forgets what
// was read for them: of a repeated member the last one counts.
func (p *parser) matching(mask uint64, depth int, key []byte) uint64 {
	if mask == 0 {
		return 0
	}
	var sub uint64
	for i, f := range p.paths {
		if mask&(1<<i) != 0 && depth < len(f.Path) && f.Path[depth] == string(key) {
			sub |= 1 << i
			p.fields[i] = scan.Token{}
		}
	}
	return sub
}

// selectable reads a value that lies on the paths in mask; depth is the index of
// its own name in them.
func (p *parser) selectable(mask uint64, depth int) (scan.Token, error) {
	if mask == 0 || p.Peek() != '{' {
		t, err := p.Skip()
		if mask != 0 && (t.Kind == scan.KindString || t.Kind == scan.KindNumber || t.Kind == scan.KindBool) {
			for i, f := range p.paths {
				if mask&(1<<i) != 0 && len(f.Path) == depth+1 {
					p.fields[i] = t
				}
			}
		}
		return t, err
	}
	t := scan.Token{Start: p.Pos, Kind: scan.KindObject}
	more, err := p.Enter('}')
	for more && err == nil {
		var key scan.Token
		if key, err = p.Key(); err != nil {
			break
		}
		if _, err = p.selectable(p.matching(mask, depth+1, p.value(key)), depth+1); err == nil {
			more, err = p.Next('}')
		}
	}
	t.End = p.Pos
	return t, err
}

// object makes the Object of what was read.
func (p *parser) object() (*Object, error) {
	o := &Object{content: content{raw: p.Data, at: p.at, paths: p.paths}}
	var err error
	if p.resourceVersion.Start < p.resourceVersion.End {
		digits := string(p.value(p.resourceVersion))
		if o.rv, err = kube.ParseResourceVersion(digits); err != nil {
			return nil, &kube.DecodeError{Offset: p.at.rv, Why: "metadata." + err.Error()}
		}
	}
	if t := p.generation; t.Kind != scan.KindAbsent && t.Kind != scan.KindNull {
		o.generation, err = strconv.ParseInt(string(p.Data[t.Start:t.End]), 10, 64)
		if err != nil || t.Kind != scan.KindNumber {
			return nil, &kube.DecodeError{Offset: t.Start, Why: "metadata.generation is not an integer"}
		}
	}
	if t := p.created; t.Kind != scan.KindAbsent {
		if o.created, err = time.Parse(time.RFC3339, string(p.value(t))); err != nil {
			return nil, &kube.DecodeError{Offset: t.Start, Why: "metadata.creationTimestamp is not a time of RFC 3339"}
		}
		o.created = o.created.UTC()
	}
	o.deleting = p.deleted.Kind != scan.KindAbsent
	o.owned = p.owned
	p.strings(o)
	return o, nil
}

// common returns a text that many objects have, as one string for all of them: it
// takes no memory, and is compared by its address.
func (p *parser) common(t scan.Token) string {
	if t.Kind == scan.KindAbsent {
		return ""
	}
	return unique.Make(string(p.value(t))).Value()
}

// strings fills in the texts of o, most of them as parts of one string: one
// allocation, and none of them keeps the object's bytes alive.
func (p *parser) strings(o *Object) {
	size := 0
	each := func(use func(t scan.Token)) {
		for _, t := range [...]scan.Token{p.name, p.namespace, p.uid} {
			use(t)
		}
		for _, l := range p.labels {
			use(l.key)
			use(l.value)
		}
		for _, t := range p.fields {
			use(t)
		}
	}
	each(func(t scan.Token) { size += t.End - t.Start })
	var b strings.Builder
	b.Grow(size)
	text := func(t scan.Token) string {
		if t.Kind == scan.KindAbsent {
			return ""
		}
		from := b.Len()
		b.Write(p.value(t))
		return b.String()[from:]
	}
	o.apiVersion, o.kind = p.common(p.apiVersion), p.common(p.kind)
	o.key = Key{Namespace: text(p.namespace), Name: text(p.name)}
	o.uid = types.UID(text(p.uid))
	if len(p.labels) > 0 {
		o.labels = make(labels.Set, len(p.labels))
		for _, l := range p.labels {
			o.labels[text(l.key)] = text(l.value)
		}
	}
	if len(p.fields) > 0 {
		o.values = make([]string, len(p.fields))
		for i, t := range p.fields {
			o.values[i] = p.paths[i].Default
			if t.Kind != scan.KindAbsent {
				o.values[i] = text(t)
			}
		}
	}
}
