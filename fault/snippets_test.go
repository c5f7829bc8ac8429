package fault_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/fault"
)

// UnknownEvent sends an event of a type that clients do not know.
type UnknownEvent struct {
	// Type is that of the event.
	Type string `json:"type"`
	// Frames is how many events are sent before.
	Frames int `json:"frames,omitzero"`
}

// Serve implements fault.Action.
func (u *UnknownEvent) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	fault.Frames(w, r, next, fault.After(u.Frames, func(last fault.Frame) []fault.Frame {
		if last.Form != fault.JSON {
			return nil // nothing is added
		}
		last.Type = u.Type
		last.Body = []byte(`{"type":"` + u.Type + `","object":{"kind":"Status","apiVersion":"v1"}}`)
		return []fault.Frame{last}
	}))
}

// TestActionOfADocumentWorks: the example of ADDING-A-FAULT.md, which the root package
// compares with this file.
func TestActionOfADocumentWorks(t *testing.T) {
	for frames, want := range []string{"PROGRESS,ADDED a,ADDED b", "ADDED a,PROGRESS,ADDED b"} {
		s := serve(t, true, events(event("ADDED", "a", "1"), event("ADDED", "b", "2")), fault.Rule{
			Action: &UnknownEvent{Type: "PROGRESS", Frames: frames},
		})
		if got, err := s.lines(t, 3); strings.Join(got, ",") != want || err != nil {
			t.Errorf("%q, %v; want %s", got, err, want)
		}
		if name := s.faults.Rules()[0].Rule.Name; name != "unknownevent-1" {
			t.Errorf("its rule is called %q", name)
		}
	}
}

func TestEveryActionHasASection(t *testing.T) {
	page, err := os.ReadFile("../docs/faults.md")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	for _, k := range fault.Kinds() {
		_, section, found := strings.Cut(string(page), "\n## "+k.Name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found || !strings.Contains(section, "*Seen:*") || !strings.Contains(section, "*A correct client*") {
			t.Errorf("docs/faults.md does not describe %s: what it simulates, where it was seen, what a correct client does",
				k.Name)
		}
	}
}
