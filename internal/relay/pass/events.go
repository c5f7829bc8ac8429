package pass

import (
	"encoding/binary"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
)

// form is how the events of a watch are written.
type form int

const (
	formOther    form = iota // compressed, an error, or not known
	formJSON                 // an object each, and a line break behind it
	formProtobuf             // each event has its length in four bytes before it
)

// formOf returns the form of an answer. CBOR has no separators between events, and is formOther.
func formOf(code int, h http.Header) form {
	if code != http.StatusOK || h.Get("Content-Encoding") != "" {
		return formOther
	}
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err != nil:
	case media == "application/json":
		return formJSON
	case media == runtime.ContentTypeProtobuf:
		return formProtobuf
	}
	return formOther
}

// events finds the ends of the events of a watch in its bytes.
type events interface {
	// next takes the bytes up to the end of the event that they belong to, or all of p if it does not
	// end there. It returns how many.
	next(p []byte) int
	// between reports whether the bytes so far are whole events.
	between() bool
}

// events returns what finds the ends of events in this form; nil: nothing can.
func (f form) events() events {
	switch f {
	case formOther:
	case formJSON:
		return &texts{}
	case formProtobuf:
		return &messages{}
	}
	return nil
}

// lastEnd takes the next bytes, and returns the number of those up to the end of the last event that ends
// among them; 0: none does.
func lastEnd(e events, p []byte) (whole int) {
	for i := 0; i < len(p); {
		if i += e.next(p[i:]); e.between() {
			whole = i
		}
	}
	return whole
}

// texts are events in JSON. A server may spread one over lines.
type texts struct {
	within          bool // a line has begun, or an object
	depth           int
	quoted, escaped bool
}

func (t *texts) between() bool { return !t.within }

func (t *texts) next(p []byte) int {
	for i, c := range p {
		switch {
		case t.escaped:
			t.escaped = false
		case t.quoted:
			t.escaped, t.quoted = c == '\\', c != '"'
		case c == '"':
			t.quoted = true
		case c == '{' || c == '[':
			t.depth++
		case c == '}' || c == ']':
			t.depth--
		case c == '\n' && t.depth == 0:
			t.within = false
			return i + 1
		}
		t.within = true
	}
	return len(p)
}

// messages are events in protobuf, each behind its length in four bytes.
type messages struct {
	head []byte // of the next one, not complete
	left int64  // bytes of the current one
}

func (m *messages) between() bool { return len(m.head) == 0 && m.left == 0 }

func (m *messages) next(p []byte) int {
	const headBytes = 4
	i := 0
	for i < len(p) {
		if m.left == 0 {
			n := min(headBytes-len(m.head), len(p)-i)
			m.head = append(m.head, p[i:i+n]...)
			i += n
			if len(m.head) < headBytes {
				break
			}
			m.left, m.head = int64(binary.BigEndian.Uint32(m.head)), m.head[:0]
		}
		n := min(m.left, int64(len(p)-i))
		m.left -= n
		i += int(n)
		if m.left == 0 {
			break
		}
	}
	return i
}
