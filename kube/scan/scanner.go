package scan

import "strconv"

// Kind is what a JSON value is.
type Kind uint8

// The kinds of JSON values; a Token that is zero is of no value.
const (
	KindAbsent Kind = iota
	KindString
	KindNumber
	KindBool
	KindNull
	KindObject
	KindArray
)

// Token is one value of the text: Data[Start:End], without the quotes of a string.
type Token struct {
	Start, End int
	Kind       Kind
	// Plain says that the text is the value: a string of ASCII without escapes, a
	// literal, or a number.
	Plain bool
	// No fifth field: the compiler keeps a struct of four in registers.
}

// Error reports where a text is not JSON, and why.
type Error struct {
	Offset int // in bytes
	Why    string
}

func (e *Error) Error() string { return e.Why + " at byte " + strconv.Itoa(e.Offset) }

// Scanner walks once over JSON text and checks it as strictly as encoding/json does,
// without allocating. The caller sets the exported fields, which the methods advance.
// All errors are of type *Error; after one the Scanner is of no use.
type Scanner struct {
	Data []byte
	Pos  int // of the next byte
	// MaxDepth is how deeply objects and arrays may be nested. API objects are below 30.
	MaxDepth int

	depth int
}

func (s *Scanner) fail(why string) error { return &Error{Offset: s.Pos, Why: why} }

// Peek moves past white space and returns the next byte, 0 at the end.
func (s *Scanner) Peek() byte {
	for s.Pos < len(s.Data) {
		switch c := s.Data[s.Pos]; c {
		case ' ', '\t', '\n', '\r':
			s.Pos++
		default:
			return c
		}
	}
	return 0
}

// Enter moves past the opening byte of an object or array, and past its closing byte if
// it is empty. more says that it has a member or an item.
func (s *Scanner) Enter(closing byte) (more bool, err error) {
	if s.depth >= s.MaxDepth {
		return false, s.fail("nested too deeply")
	}
	s.Pos++
	if s.Peek() == closing {
		s.Pos++
		return false, nil
	}
	s.depth++
	return true, nil
}

// Next moves past the comma before the next member or item, or past the closing byte.
func (s *Scanner) Next(closing byte) (more bool, err error) {
	switch s.Peek() {
	case ',':
		s.Pos++
		return true, nil
	case closing:
		s.Pos++
		s.depth--
		return false, nil
	}
	return false, s.fail("no comma and no end of an object or array")
}

// Key reads the name of a member and the colon behind it.
func (s *Scanner) Key() (Token, error) {
	if s.Peek() != '"' {
		return Token{}, s.fail("a member without a quoted name")
	}
	key, err := s.quoted()
	if err != nil {
		return Token{}, err
	}
	if s.Peek() != ':' {
		return Token{}, s.fail("a member without a colon")
	}
	s.Pos++
	return key, nil
}

// Quoted reads a string.
func (s *Scanner) Quoted() (Token, error) {
	if s.Peek() != '"' {
		return Token{}, s.fail("no string")
	}
	return s.quoted()
}

// quoted reads the string whose quote is next.
func (s *Scanner) quoted() (Token, error) {
	start := s.Pos + 1
	end, plain, err := String(s.Data, start)
	if err != nil {
		s.Pos = end
		return Token{}, s.fail(err.Error())
	}
	s.Pos = end + 1
	return Token{Start: start, End: end, Kind: KindString, Plain: plain}, nil
}

// Number reads a number. integer says that it has neither fraction nor exponent.
func (s *Scanner) Number() (t Token, integer bool, err error) {
	s.Peek()
	start := s.Pos
	end, integer := Number(s.Data, start)
	if end == start {
		return Token{}, false, s.fail("a malformed number")
	}
	s.Pos = end
	return Token{Start: start, End: end, Kind: KindNumber, Plain: true}, integer, nil
}

// Literal moves past word if it is next: true, false or null.
func (s *Scanner) Literal(word string) bool {
	if len(s.Data)-s.Pos < len(word) || string(s.Data[s.Pos:s.Pos+len(word)]) != word {
		return false
	}
	s.Pos += len(word)
	return true
}

// Scalar reads a string, a number or a literal.
func (s *Scanner) Scalar() (Token, error) {
	c, start := s.Peek(), s.Pos
	kind := KindBool
	switch {
	case c == '"':
		return s.quoted()
	case c == '-' || '0' <= c && c <= '9':
		t, _, err := s.Number()
		return t, err
	case c == 't' && s.Literal("true"), c == 'f' && s.Literal("false"):
	case c == 'n' && s.Literal("null"):
		kind = KindNull
	case c == 0 && s.Pos >= len(s.Data):
		return Token{}, s.fail("the input ends too early")
	default:
		return Token{}, s.fail("no JSON value")
	}
	return Token{Start: start, End: s.Pos, Kind: kind, Plain: true}, nil
}

// Skip moves past one value of any kind.
func (s *Scanner) Skip() (Token, error) {
	t := Token{Kind: KindObject}
	closing := byte('}')
	switch s.Peek() {
	case '{':
	case '[':
		t.Kind, closing = KindArray, ']'
	default:
		return s.Scalar()
	}
	t.Start = s.Pos
	more, err := s.Enter(closing)
	for more && err == nil {
		if t.Kind == KindObject {
			if _, err = s.Key(); err != nil {
				break
			}
		}
		if _, err = s.Skip(); err == nil {
			more, err = s.Next(closing)
		}
	}
	t.End = s.Pos
	return t, err
}

// SkipAround skips an object, which is next. It returns where the value of its member of that
// name begins and ends, the last one if there are several; where the object ends if there is none.
func (s *Scanner) SkipAround(name string) (from, to int, err error) {
	more, err := s.Enter('}')
	for more && err == nil {
		var key Token
		if key, err = s.Key(); err != nil {
			break
		}
		s.Peek()
		start := s.Pos
		if _, err = s.Skip(); err != nil {
			break
		}
		if string(s.Data[key.Start:key.End]) == name {
			from, to = start, s.Pos
		}
		more, err = s.Next('}')
	}
	if to == 0 {
		from, to = s.Pos, s.Pos
	}
	return from, to, err
}
