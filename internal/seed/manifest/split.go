package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// chunk is the text of one YAML document, or of JSON documents without a separator
// between them.
type chunk struct {
	text []byte // valid until the next call of next
	// line is the line of the file at which text begins.
	line int
	// cut is set if the document is larger than the limit; then text is empty.
	cut bool
}

// splitter splits a file at the lines that begin or end a YAML document: "---" and "...",
// alone or followed by a blank. JSON contains no such line.
type splitter struct {
	r     *bufio.Reader
	limit int
	buf   []byte
	carry []byte // the separator that ended the last chunk, with what is behind it
	line  int    // of what is read next, from 1
	over  bool
}

func newSplitter(r io.Reader, limit int) *splitter {
	return &splitter{r: bufio.NewReader(r), limit: limit, line: 1}
}

// next returns the next chunk with content, and io.EOF after the last.
func (s *splitter) next() (chunk, error) {
	for !s.over {
		c, content, err := s.take()
		if err != nil || content {
			return c, err
		}
	}
	return chunk{}, io.EOF
}

// take reads up to the next separator. content reports whether the chunk has more than
// comments and blank lines.
func (s *splitter) take() (c chunk, content bool, err error) {
	c.line = s.line
	s.buf = append(s.buf[:0], s.carry...)
	if len(s.carry) > 0 {
		c.line--
		content = hasContent(s.carry[len("---"):])
		s.carry = nil
	}
	directives := false // lines that begin with %, which belong to the document after "---"
	for start := true; ; {
		piece, err := s.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return chunk{}, false, err
		}
		whole := !errors.Is(err, bufio.ErrBufferFull)
		separates := start && isSeparator(piece)
		if whole && len(piece) > 0 {
			s.line++
		}
		if separates && (content || c.cut || !directives) {
			if piece[0] == '-' {
				s.carry = bytes.Clone(piece)
			}
			c.text = s.buf
			return c, content || c.cut, nil
		}
		switch {
		case separates:
		case start && len(piece) > 0 && piece[0] == '%' && !content:
			directives = true
		default:
			content = content || hasContent(piece)
		}
		if s.buf = append(s.buf, piece...); len(s.buf) > s.limit {
			c.cut = true
			s.buf = s.buf[:0]
		}
		start = whole
		if errors.Is(err, io.EOF) {
			s.over = true
			c.text = s.buf
			return c, content || c.cut, nil
		}
	}
}

// isSeparator reports whether a line ends a document.
func isSeparator(line []byte) bool {
	for _, mark := range []string{"---", "..."} {
		if rest, is := bytes.CutPrefix(line, []byte(mark)); is {
			return len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0
		}
	}
	return false
}

// hasContent reports whether a line is neither blank nor a comment.
func hasContent(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\r\n")
	return len(line) > 0 && line[0] != '#'
}
