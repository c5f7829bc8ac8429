package dashboard

import (
	"strings"
	"testing"
	"time"
)

// TestAPageThatHasFoundNothingEnds, and says how far it has looked.
func TestAPageThatHasFoundNothingEnds(t *testing.T) {
	p := &betweenPage{room: betweenBytes, began: time.Now(), read: betweenRead}
	if p.full() {
		t.Errorf("it ends after %d bytes, without anything that differs", p.read)
	}
	for what, ended := range map[string]*betweenPage{
		"by what it has read":  {room: betweenBytes, began: time.Now(), read: betweenMost},
		"by its time":          {room: betweenBytes, began: time.Now().Add(-betweenWithin)},
		"with what it has":     {room: betweenBytes, began: time.Now(), read: betweenRead, Objects: make([]betweenObject, 1)},
		"with too much for it": {began: time.Now(), Objects: make([]betweenObject, 1)},
	} {
		if !ended.full() {
			t.Errorf("%s: it goes on", what)
		}
	}
	d, err := New(Config{})
	if err != nil {
		t.Fatalf("make a dashboard: %v", err)
	}
	for want, page := range map[string]*betweenPage{
		"Looked at 7 objects; 9 more of pods.v1 are left: nothing differs so far.": {
			Looked: 7, Left: 9, AtID: "pods.v1", Next: "x",
		},
		"Looked at 7 objects, up to pods.v1: nothing differs so far.": {Looked: 7, AtID: "pods.v1", Next: "x"},
	} {
		var out strings.Builder
		if err := d.pages["between"].ExecuteTemplate(&out, "content", page); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, %q is not in\n%s", err, want, out.String())
		}
	}
}
