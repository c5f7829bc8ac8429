// Package wrap breaks the lines of Go files that are too long to be read at once.
//
// It breaks a line where the least is torn apart, as late as it fits: a call between its
// arguments, a condition after an operator, a literal or a short function behind its brace. A
// comment at the end of a long line goes above it, a comment is filled anew, and a string is split
// between words only where nothing else helps. What is left long has no such place: a raw string,
// a tag, a long word. What it returns is as gofmt wants it; gofumpt has to run after it, and
// then wrap again.
package wrap

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxColumns is how long a line of this repository may be, in columns; a tab has four.
	MaxColumns = 130
	tabColumns = 4
	// commentColumns is how far comments are filled.
	commentColumns = 100
	// maxPasses bounds how often the lines are looked at: each pass breaks a line once.
	maxPasses = 40
)

// Columns returns how wide a line is.
func Columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// directive is a comment for a tool.
var directive = regexp.MustCompile(`^//(go:|\+|nolint)`)

// TooLong reports whether a line is longer than columns, and could be shorter. What cannot be
// is one word, such as an address, and a comment for a tool, such as a nolint with its reason.
func TooLong(line string, columns int) bool {
	if i := strings.Index(line, "//nolint:"); i >= 0 {
		line = line[:i]
	}
	text := strings.TrimSpace(line)
	return Columns(strings.TrimRight(line, " \t")) > columns && strings.ContainsAny(text, " \t") &&
		!directive.MatchString(text)
}

// Skips reports whether a directory has no files that are ours: hidden ones, the data of tests,
// and what other languages' tools make.
func Skips(dir string) bool {
	return dir == "testdata" || dir == "node_modules" || dir == "target" || len(dir) > 1 && dir[0] == '.'
}

// Source returns a Go file with the lines broken that are longer than columns, where there is a
// place for that.
func Source(src []byte, columns int) ([]byte, error) {
	for range maxPasses {
		edits, err := editsOf(src, columns)
		if err != nil {
			return nil, err
		}
		if len(edits) == 0 {
			return src, nil
		}
		next, err := format.Source(applied(src, edits))
		if err != nil {
			return nil, fmt.Errorf("format what was wrapped: %w", err)
		}
		if bytes.Equal(next, src) {
			return src, nil
		}
		src = next
	}
	return src, nil
}

// edit replaces the bytes from start to end.
type edit struct {
	start, end int
	text       string
}

// applied returns src with edits, which do not overlap.
func applied(src []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, src[at:]...)
}

// editsOf returns what is to be done to the long lines of a file, once for each of them.
func editsOf(src []byte, columns int) ([]edit, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	w := &wrapper{src: src, tokens: fset.File(file.Pos()), columns: columns}
	var places map[int][]place
	var edits []edit
	free := 0 // edits before it are made
	for n := 1; n <= w.tokens.LineCount(); n++ {
		start, end := w.line(n)
		if start < free || !TooLong(string(src[start:end]), columns) {
			continue
		}
		found, ok := w.comment(file, n)
		if !ok {
			if places == nil {
				places = placesOf(file, w)
			}
			found = w.broken(n, places[n])
		}
		for _, e := range found {
			free = max(free, e.end)
		}
		edits = append(edits, found...)
	}
	return edits, nil
}

// wrapper is one file in one pass.
type wrapper struct {
	src     []byte
	tokens  *token.File
	columns int // the most of a line
}

// line returns where a line begins and ends, without its newline.
func (w *wrapper) line(n int) (start, end int) {
	start = w.tokens.Offset(w.tokens.LineStart(n))
	if i := bytes.IndexByte(w.src[start:], '\n'); i >= 0 {
		return start, start + i
	}
	return start, len(w.src)
}

// broken returns the edits that break a line at the best of its places: one that tears the
// least apart, of these a preferred one, of these the last that fits.
func (w *wrapper) broken(n int, places []place) []edit {
	start, end := w.line(n)
	var best *place
	for i, p := range places {
		at := p.edits[0]
		rest := strings.TrimSpace(string(w.src[at.end:end]))
		first, _, _ := strings.Cut(string(w.src[start:at.start])+at.text, "\n")
		if Columns(first) > w.columns || strings.TrimSpace(first) == "" || rest == "" {
			continue
		}
		if best == nil || p.before(best) {
			best = &places[i]
		}
	}
	if best == nil {
		return nil
	}
	return best.edits
}

// place is where a line can be broken.
type place struct {
	edits []edit
	depth int // how much is torn apart
}

// before reports whether a place is better than another one of its line.
func (p place) before(other *place) bool {
	if p.depth != other.depth {
		return p.depth < other.depth
	}
	return p.edits[0].start > other.edits[0].start
}

// comment returns the edits for a long line that is a comment, or has one at its end. It is
// not ok if there is none.
func (w *wrapper) comment(file *ast.File, n int) (edits []edit, ok bool) {
	start, end := w.line(n)
	for _, group := range file.Comments {
		for _, c := range group.List {
			at := w.tokens.Offset(c.Pos())
			if at < start || at >= end || !strings.HasPrefix(c.Text, "//") {
				continue
			}
			indent := string(w.src[start : start+len(w.src[start:end])-len(bytes.TrimLeft(w.src[start:end], " \t"))])
			if at == start+len(indent) {
				return w.filled(n, indent), true
			}
			if strings.HasPrefix(c.Text, "//nolint:") {
				return nil, true // it is about what stands on its line
			}
			code := start + len(bytes.TrimRight(w.src[start:at], " \t"))
			return []edit{{start, start, indent + c.Text + "\n"}, {code, end, ""}}, true
		}
	}
	return nil, false
}

// filled returns the edit that fills a comment anew, from a long line to the end of the
// paragraph. There is none for code in a comment.
func (w *wrapper) filled(n int, indent string) []edit {
	start, end := w.line(n)
	head, rest := commentHead(string(w.src[start+len(indent) : end]))
	next := strings.Repeat(" ", len(head)-2)
	words := strings.Fields(rest)
	if !strings.HasSuffix(strings.TrimRight(head, " "), "-") && head != "// " {
		return nil // code
	}
	if head == "// " { // text: what follows moves along
		for n++; n <= w.tokens.LineCount(); n++ {
			from, to := w.line(n)
			line, is := strings.CutPrefix(string(w.src[from:to]), indent+"// ")
			if h, _ := commentHead("// " + line); !is || h != "// " || strings.TrimSpace(line) == "" {
				break
			}
			words, end = append(words, strings.Fields(line)...), to
		}
	}
	var out strings.Builder
	line := indent + head
	for _, word := range words {
		if Columns(line+word) > min(w.columns, commentColumns) && strings.TrimSpace(line) != strings.TrimSpace(indent+head) &&
			strings.TrimSpace(line) != "//" {
			out.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent + "//" + next
		}
		line += word + " "
	}
	out.WriteString(strings.TrimRight(line, " "))
	return []edit{{start, end, out.String()}}
}

// commentHead splits what a line of a comment begins with from its text: the slashes, and the mark
// of an item of a list or the indentation of code.
func commentHead(line string) (head, text string) {
	text = strings.TrimLeft(strings.TrimPrefix(line, "//"), " \t")
	text = strings.TrimPrefix(text, "- ")
	return line[:len(line)-len(text)], text
}
