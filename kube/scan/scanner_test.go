package scan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/kube/scan"
)

func TestScannerTellsWhatItReads(t *testing.T) {
	s := scan.Scanner{Data: []byte(` { "a" : -1 , "b":[true,null,"x\n"] , "c":{"d":1.5}, "e":[] } `), MaxDepth: 2}
	if s.Peek() != '{' {
		t.Fatal("no object")
	}
	want := []struct {
		key, text string
		kind      scan.Kind
		plain     bool
	}{
		{"a", "-1", scan.KindNumber, true},
		{"b", `[true,null,"x\n"]`, scan.KindArray, false},
		{"c", `{"d":1.5}`, scan.KindObject, false},
		{"e", "[]", scan.KindArray, false},
	}
	more, err := s.Enter('}')
	for _, member := range want {
		if !more || err != nil {
			t.Fatalf("before %s: %t, %v", member.key, more, err)
		}
		key, err := s.Key()
		if err != nil || string(s.Data[key.Start:key.End]) != member.key || !key.Plain {
			t.Fatalf("key %s: %+v, %v", member.key, key, err)
		}
		value, err := s.Skip()
		if err != nil || string(s.Data[value.Start:value.End]) != member.text ||
			value.Kind != member.kind || value.Plain != member.plain {
			t.Errorf("value of %s: %+v, %v", member.key, value, err)
		}
		more, err = s.Next('}')
		if err != nil {
			t.Fatalf("read the next: %v", err)
		}
	}
	if more || s.Peek() != 0 || s.Pos != len(s.Data) {
		t.Errorf("behind the object: %t, at byte %d", more, s.Pos)
	}
}

func TestScannerSaysWhereAndWhy(t *testing.T) {
	for text, want := range map[string]string{
		``:              "the input ends too early at byte 0",
		`{"a":1 "b":2}`: "no comma and no end of an object or array at byte 7",
		`{a:1}`:         "a member without a quoted name at byte 1",
		`{"a" 1}`:       "a member without a colon at byte 5",
		`{"a":tru}`:     "no JSON value at byte 5",
		`{"a":-}`:       "a malformed number at byte 5",
		`{"a":"b`:       "a string without end at byte 7",
		`[[[1]]]`:       "nested too deeply at byte 2",
		`[1,]`:          "no JSON value at byte 3",
	} {
		s := scan.Scanner{Data: []byte(text), MaxDepth: 2}
		_, err := s.Skip()
		if wrong, is := errors.AsType[*scan.Error](err); !is || wrong.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzScanner: a text is one value for the scanner if it is for encoding/json.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e3,"x\u00e4",true,false,null,{}]}`, `[`, ` {} `, `{"a":1,}`, `[1 2]`, "\"\x00\"", strings.Repeat("[", 50),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		s := scan.Scanner{Data: input, MaxDepth: 10000}
		_, err := s.Skip()
		whole := err == nil && s.Peek() == 0 && s.Pos == len(input)
		if valid := json.Valid(input); whole != valid {
			t.Errorf("%q: one value: %t (%v), valid: %t", input, whole, err, valid)
		}
	})
}
