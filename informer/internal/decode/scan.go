package decode

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep this package follows nested values; API objects are below 30.
const maxDepth = 200

// errOdd says that the input is not what the fast way is for: wrong, or unusual.
var errOdd = errors.New("not plain")

// reader walks once over JSON text and checks it as strictly as encoding/json.
type reader struct {
	data    []byte
	pos     int
	depth   int
	strings *Strings
	strip   bool
}

// peek returns the next byte that is no white space, 0 at the end.
func (r *reader) peek() byte {
	for r.pos < len(r.data) {
		switch c := r.data[r.pos]; c {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// enter goes into an object or array and says whether it has anything in it.
func (r *reader) enter(closing byte) (more bool, err error) {
	r.depth++
	if r.depth > maxDepth {
		return false, errOdd
	}
	r.pos++
	if r.peek() == closing {
		r.pos++
		r.depth--
		return false, nil
	}
	return true, nil
}

// next moves past the comma, or past the closing byte.
func (r *reader) next(closing byte) (more bool, err error) {
	switch r.peek() {
	case ',':
		r.pos++
		return true, nil
	case closing:
		r.pos++
		r.depth--
		return false, nil
	}
	return false, errOdd
}

// name reads a member's name and the colon behind it.
func (r *reader) name() ([]byte, error) {
	name, err := r.text()
	if err != nil {
		return nil, err
	}
	if r.pos < len(r.data) && r.data[r.pos] == ':' {
		r.pos++
		return name, nil
	}
	if r.peek() != ':' {
		return nil, errOdd
	}
	r.pos++
	return name, nil
}

// span finds the end of the string that begins here and stops behind it. It is plain
// if its text is its value.
func (r *reader) span() (raw []byte, plain bool, err error) {
	if r.peek() != '"' {
		return nil, false, errOdd
	}
	data, i := r.data, r.pos+1
	begin := i
	plain = true
	for {
		for i+8 <= len(data) {
			special := specialBytes(binary.LittleEndian.Uint64(data[i:]))
			if special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			return nil, false, errOdd
		}
		switch c := data[i]; {
		case c == '"':
			r.pos = i + 1
			return data[begin:i], plain, nil
		case c == '\\':
			plain = false
			n := escapeLen(data[i:])
			if n == 0 {
				return nil, false, errOdd
			}
			i += n
		case c < ' ':
			return nil, false, errOdd
		default:
			plain = plain && c < utf8.RuneSelf
			i++
		}
	}
}

// text reads a string. The result is valid until the input is not.
func (r *reader) text() ([]byte, error) {
	raw, plain, err := r.span()
	if err != nil || plain {
		return raw, err
	}
	value, err := jsontext.AppendUnquote(nil, r.data[r.pos-len(raw)-2:r.pos])
	if err != nil {
		return nil, errOdd // what is no UTF-8 is for the slow way
	}
	return value, nil
}

// specialBytes marks, in the high bit of each byte of v, the bytes that end the fast
// walk over a string: quotes, backslashes, control characters and what is not ASCII.
// A mark above the lowest one may be false: a borrow runs upwards only.
func specialBytes(v uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	quote := v ^ ones*'"'
	slash := v ^ ones*'\\'
	return (v | (v - ones*' ') | (quote - ones) | (slash - ones)) & highs
}

// escapeLen is the length of the escape sequence that b begins with, 0 if wrong.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

// literal moves past a word if it is here.
func (r *reader) literal(word string) bool {
	if len(r.data)-r.pos < len(word) || string(r.data[r.pos:r.pos+len(word)]) != word {
		return false
	}
	r.pos += len(word)
	return true
}

// null moves past a null if one is here.
func (r *reader) null() bool { return r.peek() == 'n' && r.literal("null") }

// number reads a number; integer says that it has neither fraction nor exponent.
func (r *reader) number() (text []byte, integer bool, err error) {
	r.peek()
	n, integer := numberLen(r.data[r.pos:])
	if n == 0 {
		return nil, false, errOdd
	}
	text = r.data[r.pos : r.pos+n]
	r.pos += n
	return text, integer, nil
}

// numberLen is the length of the JSON number that b begins with, 0 if there is none.
func numberLen(b []byte) (n int, integer bool) {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch end := digits(b, i); {
	case end == i:
		return 0, false
	case b[i] == '0':
		i++
	default:
		i = end
	}
	integer = true
	if i < len(b) && b[i] == '.' {
		integer = false
		end := digits(b, i+1)
		if end == i+1 {
			return 0, false
		}
		i = end
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		integer = false
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := digits(b, i)
		if end == i {
			return 0, false
		}
		i = end
	}
	return i, integer
}

// digits returns where the digits end that begin at i.
func digits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// int64 reads an integer of at most 18 digits, which always fits.
func (r *reader) int64() (int64, error) {
	text, integer, err := r.number()
	if err != nil || !integer {
		return 0, errOdd
	}
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) > 18 || negative && text[0] == '0' {
		return 0, errOdd
	}
	var n int64
	for _, c := range text {
		n = n*10 + int64(c-'0')
	}
	if negative {
		n = -n
	}
	return n, nil
}

// value moves past one value of any kind and returns its text.
func (r *reader) value() ([]byte, error) {
	r.peek()
	begin := r.pos
	err := r.skip()
	return r.data[begin:r.pos], err
}

// skip moves past one value of any kind.
func (r *reader) skip() error {
	switch r.peek() {
	case '"':
		_, _, err := r.span()
		return err
	case '{':
		return r.members(func(*reader, []byte) error { return errSkip })
	case '[':
		more, err := r.enter(']')
		for more && err == nil {
			if err = r.skip(); err == nil {
				more, err = r.next(']')
			}
		}
		return err
	case 't':
		return must(r.literal("true"))
	case 'f':
		return must(r.literal("false"))
	case 'n':
		return must(r.literal("null"))
	}
	_, _, err := r.number()
	return err
}

// errSkip is what the receiver of members returns for a member it does not want.
var errSkip = errors.New("skip")

// members reads an object. each gets the name of each member and reads its value, or
// returns errSkip.
func (r *reader) members(each func(r *reader, name []byte) error) error {
	more, err := r.enter('}')
	for more && err == nil {
		var name []byte
		if name, err = r.name(); err != nil {
			return err
		}
		if err = each(r, name); err == errSkip { //nolint:errorlint // our own, never wrapped, for each member
			err = r.skip()
		}
		if err == nil {
			more, err = r.next('}')
		}
	}
	return err
}

func must(is bool) error {
	if is {
		return nil
	}
	return errOdd
}
