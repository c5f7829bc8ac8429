package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/yamltext"
)

// read yields the documents of a file.
func read(name string) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		f, err := os.Open(name)
		if err != nil {
			yield(Document{}, &Error{Cause: err})
			return
		}
		defer f.Close() //nolint:errcheck // it was only read
		for d, err := range decode(f, decoding{limit: MaxDocument, json: filepath.Ext(name) == ".json"}) {
			if !yield(d, err) {
				return
			}
		}
	}
}

// decoding are the options of decode.
type decoding struct {
	limit int  // bytes of a document
	json  bool // the file has the extension of JSON
}

// decode yields the documents that r contains.
func decode(r io.Reader, o decoding) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		s := newSplitter(r, o.limit)
		number := 0
		for {
			c, err := s.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Document{}, &Error{Line: s.line, Cause: err})
				return
			}
			for d, err := range o.documents(c, &number) {
				if !yield(d, err) {
					return
				}
			}
		}
	}
}

// documents yields the documents of a chunk.
func (o decoding) documents(c chunk, number *int) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		if c.line == 1 {
			c.text = bytes.TrimPrefix(c.text, []byte("\ufeff"))
		}
		text, skipped := leading(c.text)
		line := c.line + skipped
		switch {
		case c.cut:
			*number++
			yield(Document{},
				problem(*number, c.line,
					"the document has more than %d bytes: split it into documents with a line --- between them", o.limit))
		case !utf8.Valid(c.text):
			*number++
			yield(Document{}, problem(*number, line, "the text is not UTF-8: save the file as UTF-8"))
		case bytes.HasPrefix(text, []byte("{")):
			o.jsonValues(text, line, number, yield)
		default:
			o.yamlValue(c, line, number, yield)
		}
	}
}

// leading returns a text from its first character of content on, and how many lines are
// before it.
func leading(text []byte) (rest []byte, lines int) {
	for rest = text; len(rest) > 0; lines++ {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		line := rest[:end]
		if isSeparator(line) {
			line = line[len("---"):]
		}
		if hasContent(line) && line[0] != '%' {
			break
		}
		rest = rest[end:]
	}
	return bytes.TrimLeft(rest, " \t"), lines
}

// jsonValues yields the JSON values of a text, which may also be YAML that begins with {.
func (o decoding) jsonValues(text []byte, line int, number *int, yield func(Document, error) bool) {
	dec := json.NewDecoder(bytes.NewReader(text))
	counted, at := 0, line // at is the line of the offset counted
	for first := true; ; first = false {
		before := int(dec.InputOffset())
		start := before + len(text[before:]) - len(bytes.TrimLeft(text[before:], " \t\r\n"))
		at += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil && first && !o.json {
			if converted, yamlErr := yamltext.ToJSON(text, o.limit); yamlErr == nil {
				*number++
				yield(check(converted, *number, line))
				return
			}
		}
		*number++
		if err != nil {
			if syntax, is := errors.AsType[*json.SyntaxError](err); is {
				at = line + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
			}
			yield(Document{}, problem(*number, at, "malformed JSON: %w", err))
			return
		}
		if !yield(check(raw, *number, at)) {
			return
		}
	}
}

// yamlValue yields the document of a chunk of YAML, unless it is empty.
func (o decoding) yamlValue(c chunk, line int, number *int, yield func(Document, error) bool) {
	converted, err := yamltext.ToJSON(c.text, o.limit)
	if err == nil && string(converted) == "null" {
		return
	}
	*number++
	if err != nil {
		text, at := inFile(err.Error(), c.line)
		last := c.line + bytes.Count(c.text, []byte("\n")) // the library also counts other line breaks
		yield(Document{}, problem(*number, min(max(at, line), last), "malformed YAML: %s", text))
		return
	}
	yield(check(converted, *number, line))
}

// check returns a document of JSON, which must be an object.
func check(text []byte, number, line int) (Document, error) {
	if len(text) == 0 || text[0] != '{' {
		return Document{}, problem(number, line,
			"want an object with apiVersion and kind, got %.30q; for several objects use a List, or documents with a "+
				"line --- between them", text)
	}
	if kinds.TooDeep(text) {
		return Document{}, problem(number, line, "the document is nested more than %d levels deep", kinds.MaxDepth)
	}
	return Document{Number: number, Line: line, JSON: text}, nil
}

// numbered finds the line in an error of the YAML library.
var numbered = regexp.MustCompile(`\bline ([0-9]+)`)

// inFile replaces the lines of a chunk in an error by those of the file, and returns the
// first.
func inFile(text string, start int) (changed string, line int) {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "error converting YAML to JSON: "), "yaml: ")
	changed = numbered.ReplaceAllStringFunc(text, func(found string) string {
		n, err := strconv.Atoi(strings.TrimPrefix(found, "line "))
		if err != nil {
			return found
		}
		if line == 0 {
			line = start + n - 1
		}
		return fmt.Sprintf("line %d", start+n-1)
	})
	return strings.Join(strings.Fields(changed), " "), line
}
