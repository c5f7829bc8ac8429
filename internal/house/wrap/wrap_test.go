package wrap_test

import (
	"bytes"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/house/wrap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is a name that takes n columns.
func long(n int) string { return strings.Repeat("a", n) }

func TestLongLinesAreBrokenWhereTheLeastIsTornApart(t *testing.T) {
	a, b, c := long(60), long(61), long(52)
	for _, test := range []struct{ name, line, want string }{
		{
			"a call with a format breaks behind the format",
			`return fmt.Errorf("` + long(90) + `", x, ` + a + `)`,
			`return fmt.Errorf("` + long(90) + `",` + "\n\tx, " + a + `)`,
		},
		{
			"a call breaks behind the last argument that fits",
			`f(x, ` + a + `, y, ` + b + `)`,
			`f(x, ` + a + `, y,` + "\n\t" + b + `)`,
		},
		{
			"a condition breaks at || before &&",
			`if ` + a + ` && x || y && ` + b + ` {` + "\n}",
			`if ` + a + ` && x ||` + "\n\ty && " + b + ` {` + "\n}",
		},
		{
			"a condition breaks rather than a call in it",
			`if f(x, ` + a + `) && g(y, ` + b + `) {` + "\n}",
			`if f(x, ` + a + `) &&` + "\n\tg(y, " + b + `) {` + "\n}",
		},
		{
			"a literal that is the last argument breaks at its braces",
			`f(x, T{A: ` + c + `, B: ` + a + `})`,
			`f(x, T{` + "\n\tA: " + c + `, B: ` + a + ",\n})",
		},
		{
			"a function of one line gets lines for its body",
			`f(x, func() int { return ` + c + ` + ` + a + ` })`,
			`f(x, func() int {` + "\n\treturn " + c + ` + ` + a + "\n})",
		},
		{
			"of what is returned, the call breaks",
			`return x, f(` + a + `, ` + b + `)`,
			`return x, f(` + a + `,` + "\n\t" + b + `)`,
		},
		{
			"a string that does not fit is split between words",
			`x = "` + a + ` ` + b + ` ` + long(30) + `"`,
			`x = "` + a + ` " +` + "\n\t" + `"` + b + ` ` + long(30) + `"`,
		},
		{
			"JSON is split behind a comma",
			"x = `{\"a\":\"" + a + "\",\"b\":\"" + b + "\"}`",
			"x = `{\"a\":\"" + a + "\",` +\n\t`\"b\":\"" + b + "\"}`",
		},
		{
			"a comment at the end goes above the line",
			`f(` + a + `) // ` + b + " and more",
			"// " + b + " and more\nf(" + a + ")",
		},
		{
			"a comment is filled with the lines that follow",
			"// " + a + " " + b + " " + a + "\n// and more\n//\n// and another one",
			"// " + a + "\n// " + b + "\n// " + a + " and more\n//\n// and another one",
		},
		{
			"an item of a list keeps its mark",
			"//   - " + a + " " + b + " " + a,
			"//   - " + a + "\n//     " + b + "\n//     " + a,
		},
		{
			"code in a comment stays",
			"//\t" + a + " " + b + " " + a,
			"//\t" + a + " " + b + " " + a,
		},
		{
			"what fits stays",
			"f(" + c + ", " + a + ") // x",
			"f(" + c + ", " + a + ") // x",
		},
		{
			"a directive stays on its line",
			"f(" + a + ", " + b + ") //nolint:gosec // " + b + " and more",
			"f(" + a + ", " + b + ") //nolint:gosec // " + b + " and more",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wrap.Source([]byte(inFunction(test.line)), wrap.MaxColumns)
			if err != nil {
				t.Fatalf("wrap: %v", err)
			}
			if diff := cmp.Diff(inFunction(test.want), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// inFunction is a file with these lines in a function.
func inFunction(lines string) string {
	return "package p\n\nfunc f() {\n\t" + strings.ReplaceAll(lines, "\n", "\n\t") + "\n}\n"
}

// TestWrappingChangesNothingButLines wraps files of this repository as if lines were short.
func TestWrappingChangesNothingButLines(t *testing.T) {
	const columns = 60
	names, err := filepath.Glob("../../../internal/store/*/*.go")
	if err != nil {
		t.Fatalf("look for files: %v", err)
	}
	wrapped := 0
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		got, err := wrap.Source(src, columns)
		if err != nil {
			t.Fatalf("wrap %s: %v", name, err)
		}
		if !bytes.Equal(src, got) {
			wrapped++
		}
		if diff := cmp.Diff(tokens(t, src), tokens(t, got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if wrapped < 20 {
		t.Errorf("only %d of %d files had lines to wrap", wrapped, len(names))
	}
}

// tokens lists the tokens of a file as wrapping may not change them: it adds commas before
// braces, and splits strings. The words of its comments follow.
func tokens(t *testing.T, src []byte) []string {
	t.Helper()
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile("", fset.Base(), len(src)), src, nil, scanner.ScanComments)
	var all, comments []string
	for {
		_, tok, text := s.Scan()
		n := len(all)
		switch {
		case tok == token.EOF:
			slices.Sort(comments) // some have moved
			return append(all, comments...)
		case tok == token.COMMENT:
			comments = append(comments, strings.Fields(strings.ReplaceAll(text, "//", " "))...)
		case tok == token.SEMICOLON: // most are the scanner's own
		case tok == token.STRING:
			value, err := strconv.Unquote(text)
			if err != nil {
				t.Fatalf("read the string %s: %v", text, err)
			}
			if n > 1 && all[n-1] == "+" && strings.HasPrefix(all[n-2], "string ") {
				all[n-2], all = all[n-2]+value, all[:n-1]
				continue
			}
			all = append(all, "string "+value)
		case (tok == token.RBRACE || tok == token.RPAREN) && n > 0 && all[n-1] == ",":
			all[n-1] = tok.String()
		case tok.IsLiteral():
			all = append(all, text)
		default:
			all = append(all, tok.String())
		}
	}
}
