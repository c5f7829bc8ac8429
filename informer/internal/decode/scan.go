package decode

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gapless-io/gapless/kube/scan"
)

// maxDepth is how deep this package follows nested values; API objects are below 30.
const maxDepth = 200

// errFallback says that the input is not for the fast decoder: wrong, or unusual.
var errFallback = errors.New("not plain")

// reader reads one object. All its errors leave the object to the slow decoder.
type reader struct {
	scan.Scanner
	strings *Strings
	strip   bool

	memory *memory // nil: nothing is shared
	known  *generations
	counts bool // this object counts what sites are worth
}

// name reads a member's name and the colon behind it.
func (r *reader) name() ([]byte, error) {
	key, err := r.Key()
	if err != nil {
		return nil, err
	}
	return r.unquoted(key)
}

// text reads a string. The result is valid until the input is not.
func (r *reader) text() ([]byte, error) {
	text, err := r.Quoted()
	if err != nil {
		return nil, err
	}
	return r.unquoted(text)
}

// unquoted returns the value of a string.
func (r *reader) unquoted(t scan.Token) ([]byte, error) {
	if t.Plain {
		return r.Data[t.Start:t.End], nil
	}
	value, err := jsontext.AppendUnquote(nil, r.Data[t.Start-1:t.End+1])
	if err != nil {
		return nil, errFallback // what is no UTF-8 is for the slow decoder
	}
	return value, nil
}

// null moves past a null if one is here.
func (r *reader) null() bool { return r.Peek() == 'n' && r.Literal("null") }

// int64 reads an integer of at most 18 digits, which always fits.
func (r *reader) int64() (int64, error) {
	t, integer, err := r.Number()
	if err != nil || !integer {
		return 0, errFallback
	}
	text := r.Data[t.Start:t.End]
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	if len(text) > 18 || negative && text[0] == '0' {
		return 0, errFallback
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
	r.Peek()
	begin := r.Pos
	_, err := r.Skip()
	return r.Data[begin:r.Pos], err
}

// errSkip is what the receiver of members returns for a member it does not want.
var errSkip = errors.New("skip")

// members reads an object. each gets the name of each member and reads its value, or
// returns errSkip.
func (r *reader) members(each func(r *reader, name []byte) error) error {
	more, err := r.Enter('}')
	for more && err == nil {
		var name []byte
		if name, err = r.name(); err != nil {
			return err
		}
		if err = each(r, name); err == errSkip { //nolint:errorlint // our own, never wrapped, for each member
			_, err = r.Skip()
		}
		if err == nil {
			more, err = r.Next('}')
		}
	}
	return err
}

func must(is bool) error {
	if is {
		return nil
	}
	return errFallback
}
