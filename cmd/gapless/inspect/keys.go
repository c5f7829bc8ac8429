package inspect

import (
	"io"
	"unicode/utf8"
)

// key is one that was pressed: what it writes, or one of those below.
type key string

// The keys that write nothing, as terminals send them (ECMA-48, and xterm's).
const (
	up       key = "\x1b[A"
	down     key = "\x1b[B"
	right    key = "\x1b[C"
	left     key = "\x1b[D"
	pageUp   key = "\x1b[5~"
	pageDown key = "\x1b[6~"
	tab      key = "\t"
	control  key = "\x03" // with C
)

// keysHelp says what they do.
const keysHelp = `  tab, 1 to 5        the next table; that table: resources, watches, expired, and of a replica the
                     replicas and the members of etcd
  left, right, < >   sort by another column
  i                  the other way round
  up, down, k j      one row up or down; page up, page down, space: a page
  w                  all columns, or those that fit most screens
  ?                  these keys
  q                  quit
`

// reaction says whether a key ends top.
type reaction int

const (
	goesOn reaction = iota
	ends
)

// readKeys sends each key that in has until one of them ends top, in ends, or ended is closed. Then it closes keys.
func readKeys(in io.Reader, keys chan<- key, ended <-chan struct{}) {
	defer close(keys)
	const most = 64 // bytes of keys that are pressed at once
	buffer := make([]byte, most)
	for {
		n, err := in.Read(buffer)
		for _, k := range parseKeys(buffer[:n]) {
			select {
			case keys <- k:
			case <-ended:
				return
			}
			if k == "q" || k == control {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// parseKeys splits what a terminal has sent. It knows no key of which only the beginning is there.
func parseKeys(raw []byte) (all []key) {
	for len(raw) > 0 {
		n := sequence(raw)
		all = append(all, key(raw[:n]))
		raw = raw[n:]
	}
	return all
}

// sequence returns the length of the first key: that of a control sequence (ECMA-48, 5.4), or of a character.
func sequence(raw []byte) int {
	if len(raw) < 2 || raw[0] != '\x1b' || raw[1] != '[' && raw[1] != 'O' {
		_, n := utf8.DecodeRune(raw)
		return n
	}
	for i := 2; i < len(raw); i++ {
		if raw[i] >= '@' && raw[i] <= '~' {
			return i + 1
		}
	}
	return len(raw)
}
