package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/gapless-io/gapless/kube"
	"github.com/gapless-io/gapless/kube/scan"
)

// maxDepth is how deeply JSON may be nested: encoding/json's own limit.
const maxDepth = 10000

// scanner walks over the JSON of an object.
type scanner struct{ scan.Scanner }

func newScanner(data []byte) scanner {
	return scanner{scan.Scanner{Data: data, MaxDepth: maxDepth}}
}

func (s *scanner) fail(why string) error { return &kube.DecodeError{Offset: s.Pos, Why: why} }

// decodeError returns what this package reports for an error of a scanner's.
func decodeError(err error) error {
	if wrong, is := errors.AsType[*scan.Error](err); is {
		return &kube.DecodeError{Offset: wrong.Offset, Why: wrong.Why}
	}
	return err
}

// value returns the text of a string, number or bool as encoding/json would
// decode it.
func (s *scanner) value(t scan.Token) []byte {
	raw := s.Data[t.Start:t.End]
	if t.Plain || bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw
	}
	var text string
	if err := json.Unmarshal(s.Data[t.Start-1:t.End+1], &text); err != nil {
		return raw // cannot be: the scanner has checked the string
	}
	return []byte(text)
}
