package faults_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/fault"
)

const (
	all = 1000
	// anything is events of which a load decides how many there are.
	anything = "…"
)

// TestActionsChangeWatchesOnTheWire: what a client sees of each action that is about
// watches, in every way that the server sends them, and that it sees none after the removal.
func TestActionsChangeWatchesOnTheWire(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	const normal = "ADDED a,ADDED b,BOOKMARK"
	for name, c := range map[string]struct {
		action fault.Action
		most   int
		want   string
		in     []way // nil: all
	}{
		"gone":                  {&fault.Gone{}, all, "410", nil},
		"gone, late":            {&fault.Gone{Frames: 3}, all, normal + ",410", nil},
		"gone, http":            {&fault.Gone{As: "http"}, all, "410", []way{http1, http2, protobuf}},
		"gone, empty":           {&fault.Gone{As: "empty"}, all, "end", []way{http1, http2}},
		"gone, close":           {&fault.Gone{As: "close"}, all, "end", []way{socket}},
		"short-watch":           {&fault.ShortWatch{}, all, "end", nil},
		"short-watch, frames":   {&fault.ShortWatch{Frames: 1}, all, "ADDED a,end", nil},
		"short-watch, for":      {&fault.ShortWatch{For: 500 * time.Millisecond}, all, anything + "end", nil},
		"cut":                   {&fault.Cut{Frames: 1}, all, "ADDED a,broken", nil},
		"cut, mid-frame":        {&fault.Cut{How: "mid-frame", Frames: 1}, all, "ADDED a,broken", nil},
		"cut, reset":            {&fault.Cut{How: "reset", Frames: 1}, all, "ADDED a,broken", nil},
		"no-bookmarks":          {&fault.NoBookmarks{}, 3, normal, nil}, // the end of the initial events stays
		"no-initial-events-end": {&fault.NoInitialEventsEnd{}, 2, "ADDED a,ADDED b", nil},
		"early-bookmark":        {&fault.EarlyBookmark{}, 4, "BOOKMARK," + normal, nil},
		"duplicate":             {&fault.Duplicate{}, 6, "ADDED a,ADDED a,ADDED b,ADDED b,BOOKMARK,BOOKMARK", nil},
		"internal-error":        {&fault.InternalError{Frames: 1}, all, "ADDED a,500", nil},
		"undecodable, syntax":   {&fault.Undecodable{How: "syntax"}, 1, "broken", nil},
		"undecodable, JSON":     {&fault.Undecodable{}, 3, normal, []way{socket}},
		"undecodable, protobuf": {&fault.Undecodable{}, 3, "ADDED ?,ADDED b,BOOKMARK", []way{protobuf}},
		"large-frame":           {&fault.LargeFrame{}, 3, normal, nil},
		"coalesce":              {&fault.Coalesce{}, 3, normal, nil},
		"split":                 {&fault.Split{}, 3, normal, nil},
		"delay":                 {&fault.Delay{For: time.Millisecond, Event: time.Millisecond}, 3, normal, nil},
		"throttle":              {&fault.Throttle{BytesPerSecond: 20_000}, 3, normal, nil},
	} {
		for _, w := range []way{http1, http2, protobuf, socket} {
			if c.in != nil && !slices.Contains(c.in, w) {
				continue
			}
			t.Run(name+" "+strings.ReplaceAll(string(w), "/", ""), func(t *testing.T) {
				if err := s.faults.Add(fault.Rule{
					Match: fault.Match{Verbs: []string{"watch"}, Namespaces: []string{of.Namespace}}, Action: c.action,
				}); err != nil {
					t.Fatalf("add the rule: %v", err)
				}
				if got := follow(t, s, of, w,
					c.most); got != c.want && (c.want != anything+"end" || !strings.HasSuffix(got, "end")) {
					t.Errorf("%s, want %s", got, c.want)
				}
				if acted := s.faults.Rules()[0].Acted; acted == 0 {
					t.Error("the rule has not acted")
				}
				s.faults.Clear()
				if got := follow(t, s, of, w, 3); got != normal {
					t.Errorf("after the removal: %s", got)
				}
			})
		}
	}
}

func TestSilentWatchEndsWithTheRule(t *testing.T) {
	s := launch(t)
	of := configMaps(t, s)
	for _, w := range []way{http1, http2, protobuf, socket} {
		if err := s.faults.Add(fault.Rule{
			Name: "quiet", Match: fault.Match{Verbs: []string{"watch"}}, Action: &fault.Silence{Frames: 1},
		}); err != nil {
			t.Fatalf("add the rule: %v", err)
		}
		ended := make(chan string, 1)
		go func() { ended <- follow(t, s, of, w, all) }() // ends with the connection
		select {
		case got := <-ended:
			t.Errorf("%s: %s", w, got)
		case <-time.After(300 * time.Millisecond): // more would not show more
			s.faults.Remove("quiet")
			if got := <-ended; got != "ADDED a,broken" {
				t.Errorf("%s: %s", w, got)
			}
		}
		s.faults.Clear()
		if got := follow(t, s, of, w, 3); got != "ADDED a,ADDED b,BOOKMARK" {
			t.Errorf("%s after the removal: %s", w, got)
		}
	}
}
