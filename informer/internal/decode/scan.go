package decode

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gapless-io/gapless/kube/scan"
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

	memory *memory // nil: nothing is shared
	known  *generations
	counts bool // this object counts what sites are worth
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
	begin := r.pos + 1
	end, plain, err := scan.String(r.data, begin)
	if err != nil {
		return nil, false, errOdd
	}
	r.pos = end + 1
	return r.data[begin:end], plain, nil
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
	end, integer := scan.Number(r.data, r.pos)
	if end == r.pos {
		return nil, false, errOdd
	}
	text = r.data[r.pos:end]
	r.pos = end
	return text, integer, nil
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
