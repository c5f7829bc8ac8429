package load

import (
	"fmt"
	"strings"
	"testing"
)

func TestStampsOfAListAreFoundWhateverThePieces(t *testing.T) {
	var items []string
	for key := range 5 {
		items = append(items,
			string(Object{Namespace: "default", Name: fmt.Sprint("o", key), Version: "7"}.append(nil,
				Stamp{Key: key, Seq: int64(10 + key)})))
	}
	for name, format := range map[string]string{
		"gapless":  `{"kind":"BenchList","metadata":{"resourceVersion":"99"},"items":[%s]}`,
		"upstream": `{"items":[%s],"kind":"BenchList","metadata":{"continue":"","resourceVersion":"99"}}`,
	} {
		body := fmt.Sprintf(format, strings.Join(items, ","))
		for size := 1; size <= len(body); size += 13 {
			s := &stamps{}
			for at := 0; at < len(body); at += size {
				if _, err := s.Write([]byte(body[at:min(at+size, len(body))])); err != nil {
					t.Fatalf("write: %v", err)
				}
			}
			if version, err := s.version(); err != nil || version != 99 || len(s.found) != 5 || s.found[3].Seq != 13 {
				t.Fatalf("%s in pieces of %d: version %d, %v; %v", name, size, version, err, s.found)
			}
		}
	}
}
