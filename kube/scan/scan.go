// Package scan walks over JSON text and checks it as strictly as encoding/json does,
// without allocating and without decoding anything.
//
// A [Scanner] walks over a text, value by value. A [Token] is a value that it found. A [Kind]
// is what that is.
package scan

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf8"
)

// What is wrong with a text. The place that comes with them is where.
var (
	ErrString  = errors.New("a string without end")
	ErrEscape  = errors.New("a wrong escape in a string")
	ErrControl = errors.New("a control character in a string")
)

// String walks over a string whose text, behind the opening quote, begins at i, and
// returns the place of the closing quote. It is plain if its text is its value: ASCII
// without escapes. Errors: those above; whether it is UTF-8 is not checked.
func String(data []byte, i int) (end int, plain bool, err error) {
	plain = true
	for {
		// Eight bytes at a time, until one of them is special.
		for i+8 <= len(data) {
			special := specialBytes(binary.LittleEndian.Uint64(data[i:]))
			if special != 0 {
				i += bits.TrailingZeros64(special) / 8
				break
			}
			i += 8
		}
		if i >= len(data) {
			return i, plain, ErrString
		}
		switch c := data[i]; {
		case c == '"':
			return i, plain, nil
		case c == '\\':
			plain = false
			n := escapeLen(data[i:])
			if n == 0 {
				return i, plain, ErrEscape
			}
			i += n
		case c < ' ':
			return i, plain, ErrControl
		default:
			plain = plain && c < utf8.RuneSelf
			i++
		}
	}
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

// Number returns the place behind the number that begins at i, which is i if there is
// none. integer says that it has neither fraction nor exponent.
func Number(data []byte, i int) (end int, integer bool) {
	begin := i
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch end := digits(data, i); {
	case end == i:
		return begin, false
	case data[i] == '0':
		i++
	default:
		i = end
	}
	integer = true
	if i < len(data) && data[i] == '.' {
		integer = false
		end := digits(data, i+1)
		if end == i+1 {
			return begin, false
		}
		i = end
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		integer = false
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		end := digits(data, i)
		if end == i {
			return begin, false
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
