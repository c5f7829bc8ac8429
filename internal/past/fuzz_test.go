package past_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/past"
)

// FuzzObjects compares two objects in every way.
func FuzzObjects(f *testing.F) {
	f.Add(managed, `{"spec":{"containers":[{"name":"a"},{"name":1}]},"metadata":{"managedFields":[{"fieldsV1":{"k:{":{}}}]}}`)
	f.Add(`{"a":[[],{}],"":"\n  x","~":"yes","? ":": #"}`, `{"a":[{},[]],"status":"- a\r\n","x":"a\n\n"}`)
	f.Add(`{"kind":"Secret","apiVersion":"v1","data":{"a":1},"stringData":[]}`, `{"kind":"Secret","apiVersion":"v1","data":"x"}`)
	f.Fuzz(func(t *testing.T, one, two string) {
		before, err := past.Decode([]byte(one))
		if err != nil {
			return
		}
		after, err := past.Decode([]byte(two))
		if err != nil {
			return
		}
		found := past.Compare(before, after)
		if len(past.Compare(before, before)) > 0 {
			t.Fatal("it differs from itself")
		}
		_ = past.Summary(found, 3)
		_ = past.Names(past.Authors(before, after, found))
		_ = past.Clean(before)
		x, err := past.YAML(past.NewMasker().Mask(before))
		if err != nil {
			t.Skip(err) // as for kubectl: YAML has no such text
		}
		y, err := past.YAML(after)
		if err != nil {
			t.Skip(err)
		}
		diff := past.Unified("a", "b", x, y)
		if !strings.Contains(string(x)+string(y), "\n---") && applied(t, string(x), diff) != string(y) {
			t.Fatalf("the diff is wrong:\n%s", diff)
		}
		var b past.Blame
		b.Begin(before)
		b.Change(after, &past.Version{ResourceVersion: 2})
		if _, err := b.Lines(past.NewMasker().Mask); err != nil {
			t.Skip(err)
		}
	})
}

func FuzzMoment(f *testing.F) {
	for _, text := range []string{"14:05", "2h", "3d1h", "2026-11-25T14:00:00Z", "1000000042", "2026-11-25 14:05", "0001-01-01"} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 25, 14, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := past.ParseMoment(text, now)
		if err == nil && (m.IsZero() || m.At.After(now)) {
			t.Errorf("%q is %v", text, m)
		}
	})
}
