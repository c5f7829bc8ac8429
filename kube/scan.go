package kube

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/gapless-io/gapless/kube/scan"
)

// maxDepth is how deeply JSON may be nested: encoding/json's own limit.
const maxDepth = 10000

// tokenKind is what a JSON value is.
type tokenKind uint8

const (
	tokenAbsent tokenKind = iota
	tokenString
	tokenNumber
	tokenBool
	tokenNull
	tokenObject
	tokenArray
)

// token is one scanned value: data[start:end] is its text, without the quotes of
// a string. It is plain when the text is the value: ASCII without escapes.
type token struct {
	start, end int
	kind       tokenKind
	plain      bool
}

// scanner walks once over JSON and checks it as strictly as encoding/json does,
// without allocating. Nothing is decoded that is not asked for.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) fail(why string) error { return &DecodeError{Offset: s.pos, Why: why} }

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte that is no white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// open enters an object or array and says whether it has anything in it.
func (s *scanner) open(closing byte) (more bool) {
	s.pos++
	if s.peek() == closing {
		s.pos++
		return false
	}
	return true
}

// next moves past the comma to the next member, or past the closing byte.
func (s *scanner) next(closing byte) (more bool, err error) {
	switch s.peek() {
	case ',':
		s.pos++
		s.space()
		return true, nil
	case closing:
		s.pos++
		return false, nil
	}
	return false, s.fail("no comma and no end of an object or array")
}

// key reads a member's name and the colon, and stops at its value.
func (s *scanner) key() (token, error) {
	if s.peek() != '"' {
		return token{}, s.fail("a member without a quoted name")
	}
	key, err := s.text()
	if err != nil {
		return token{}, err
	}
	if s.peek() != ':' {
		return token{}, s.fail("a member without a colon")
	}
	s.pos++
	s.space()
	return key, nil
}

// text reads a string; the scanner stands at its opening quote.
func (s *scanner) text() (token, error) {
	t := token{start: s.pos + 1, kind: tokenString}
	end, plain, err := scan.String(s.data, t.start)
	t.plain = plain
	if err != nil {
		s.pos = end
		return t, s.fail(err.Error())
	}
	t.end, s.pos = end, end+1
	return t, nil
}

// scalar reads a string, number or literal.
func (s *scanner) scalar() (token, error) {
	t := token{start: s.pos, plain: true}
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c == '-' || '0' <= c && c <= '9':
		end, _ := scan.Number(s.data, s.pos)
		if end == s.pos {
			return t, s.fail("a malformed number")
		}
		t.kind = tokenNumber
		s.pos = end
	case c == 't' && s.literal("true"), c == 'f' && s.literal("false"):
		t.kind = tokenBool
	case c == 'n' && s.literal("null"):
		t.kind = tokenNull
	case c == 0 && s.pos >= len(s.data):
		return t, s.fail("the input ends too early")
	default:
		return t, s.fail("no JSON value")
	}
	t.end = s.pos
	return t, nil
}

func (s *scanner) literal(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

// skip walks over one value of any kind.
func (s *scanner) skip(depth int) (token, error) {
	var kind tokenKind
	var closing byte
	switch s.peek() {
	case '{':
		kind, closing = tokenObject, '}'
	case '[':
		kind, closing = tokenArray, ']'
	default:
		return s.scalar()
	}
	if depth >= maxDepth {
		return token{}, s.fail("nested too deeply")
	}
	t := token{start: s.pos, kind: kind}
	var err error
	for more := s.open(closing); more && err == nil; {
		if kind == tokenObject {
			if _, err = s.key(); err != nil {
				break
			}
		}
		if _, err = s.skip(depth + 1); err == nil {
			more, err = s.next(closing)
		}
	}
	t.end = s.pos
	return t, err
}

// value returns the text of a string, number or bool as encoding/json would
// decode it.
func (s *scanner) value(t token) []byte {
	raw := s.data[t.start:t.end]
	if t.plain || bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw
	}
	var text string
	if err := json.Unmarshal(s.data[t.start-1:t.end+1], &text); err != nil {
		return raw // cannot be: the scanner has checked the string
	}
	return []byte(text)
}
