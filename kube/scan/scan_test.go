package scan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/kube/scan"
)

func TestStringsEndAtTheirQuote(t *testing.T) {
	for _, test := range []struct {
		text  string // behind the opening quote
		end   int
		plain bool
		err   error
	}{
		{`"`, 0, true, nil},
		{`abc" "`, 3, true, nil},
		{`12345678"`, 8, true, nil},
		{`123456789abcdef" `, 15, true, nil},
		{`ä"`, 2, false, nil},
		{`a\"b"`, 4, false, nil},
		{`1234567\\"`, 9, false, nil},
		{`\u00e4"`, 6, false, nil},
		{`12345678`, 8, true, scan.ErrString},
		{``, 0, true, scan.ErrString},
		{`\`, 0, false, scan.ErrEscape},
		{`\x"`, 0, false, scan.ErrEscape},
		{`a\u00g0"`, 1, false, scan.ErrEscape},
		{`\u00"`, 0, false, scan.ErrEscape},
		{"abcdefghi\n\"", 9, true, scan.ErrControl},
	} {
		end, plain, err := scan.String([]byte(`"`+test.text), 1)
		if end != test.end+1 || plain != test.plain || !errors.Is(err, test.err) {
			t.Errorf("%q: %d, %t, %v", test.text, end-1, plain, err)
		}
	}
}

func TestNumbersEndAfterTheirLastDigit(t *testing.T) {
	for _, test := range []struct {
		text    string
		end     int
		integer bool
	}{
		{"0", 1, true},
		{"-17,", 3, true},
		{"01", 1, true},
		{"1.5", 3, false},
		{"2e+10]", 5, false},
		{"1.5E-3", 6, false},
		{"", 0, false},
		{"-", 0, false},
		{"+1", 0, false},
		{".5", 0, false},
		{"1.", 0, false},
		{"1e", 0, false},
		{"x", 0, false},
	} {
		if end, integer := scan.Number([]byte(test.text), 0); end != test.end || integer != test.integer {
			t.Errorf("%q: %d, %t", test.text, end, integer)
		}
	}
}

// FuzzScan: what is walked over to its end is what encoding/json takes for a string or
// a number, and nothing else is.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`"a"`, `"\u00e4\n"`, `"`, `1`, `-1.5e3`, `01`, `"12345678\"9"`, "\"\x00\"", strings.Repeat("ab", 20),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		var whole bool
		if input[0] == '"' {
			end, plain, err := scan.String(input, 1)
			whole = err == nil && end == len(input)-1
			var value string
			if whole && plain && (json.Unmarshal(input, &value) != nil || value != string(input[1:end])) {
				t.Errorf("%q is not plain: %q", input, value)
			}
		} else {
			end, integer := scan.Number(input, 0)
			whole = end == len(input)
			if whole && integer == strings.ContainsAny(string(input), ".eE") {
				t.Errorf("%q: integer is %t", input, integer)
			}
		}
		scalar := input[0] == '"' || input[0] == '-' || '0' <= input[0] && input[0] <= '9'
		edge := input[len(input)-1] <= ' ' // white space around a value is not part of it
		if valid := json.Valid(input) && scalar && !edge; whole != valid {
			t.Errorf("%q: walked to the end: %t, valid: %t", input, whole, valid)
		}
	})
}
