package dictionary

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// magic begins an object in Kubernetes' protobuf encoding. A message follows.
const magic = "k8s\x00"

// object compresses an object in Kubernetes' protobuf encoding.
func (p *compressor) object() {
	p.fields(len(magic), len(p.text), func(begin, content, end int) {
		// The whole object gets no entry: no other object is equal to it.
		p.content(content, end)
	})
}

// message compresses the fields of text[begin:end]: each is one text, with its number. A
// field that is not known is looked into.
func (p *compressor) message(begin, end int) {
	if p.depth++; p.depth <= maxDepth {
		p.fields(begin, end, func(begin, content, end int) {
			if end-begin > maxText || !p.try(begin, end) {
				p.content(content, end)
			}
		})
	}
	p.depth--
}

// content compresses what a field of bytes contains: text, JSON, or a message. What it is
// cannot be known without its type, and if it is taken for another thing, that only costs
// some bytes.
func (p *compressor) content(begin, end int) {
	if end-begin < minText {
		return
	}
	if first, last := p.text[begin], p.text[end-1]; first == '{' && last == '}' {
		p.inside(begin, end)
	} else if messages(p.text[begin:end]) {
		p.message(begin, end)
	}
}

// messages reports whether text has the form of a message.
func messages(text []byte) bool {
	for len(text) > 0 {
		_, _, size := protowire.ConsumeField(text)
		if size < 0 {
			return false
		}
		text = text[size:]
	}
	return true
}

// fields calls each for the fields of bytes in text[begin:end], until one is broken: with
// where it begins, where its content begins, and where it ends.
func (p *compressor) fields(begin, end int, each func(begin, content, end int)) {
	for begin < end {
		number, wire, tag := protowire.ConsumeTag(p.text[begin:end])
		if tag < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, wire, p.text[begin+tag:end])
		if size < 0 {
			return
		}
		next := begin + tag + size
		if wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(p.text[begin+tag : end])
			each(begin, next-len(value), next)
		}
		begin = next
	}
}

// isObject reports whether text is an object in Kubernetes' protobuf encoding.
func isObject(text []byte) bool { return bytes.HasPrefix(text, []byte(magic)) }
