package inspect

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gapless-io/gapless/status"
)

// FuzzStatus draws what a server has answered, whatever that is: no control character of it reaches the terminal.
func FuzzStatus(f *testing.F) {
	client := status.Client{
		User: "jane\x1b[2J", UserAgent: "kubectl", Resource: "pods", LabelSelector: "a=\u202eb", Since: time.Now(),
	}
	state := status.State{
		Resources: []status.Resource{{Resource: "pods", Objects: 3, OldestTime: time.Now()}},
		Clients: status.Clients{
			Watches: []status.Watch{{Client: client, ExpiresAt: time.Now()}}, WatchCount: 7,
			Expired: []status.Expired{{Client: client, Why: "\r\nso"}}, Refused: map[string]int64{"\x07": 1},
		},
		Storage: status.Storage{Lost: "\x1b]0;title\x07"},
	}
	for _, seed := range []any{
		status.Server{State: state, URL: "x"},
		status.Replica{State: &state},
		status.Replica{Away: "it lags"},
		status.Relay{
			Upstream: "https://up", URL: "y", Clients: state.Clients, Resources: []status.RelayResource{{Resource: "pods.v1"}},
		},
	} {
		body, err := json.Marshal(seed)
		if err != nil {
			f.Fatalf("encode a seed: %v", err)
		}
		f.Add(body, "2w\x1b[C\x1b[6~?xi")
	}
	f.Fuzz(func(t *testing.T, body []byte, pressed string) {
		for _, path := range []string{status.Path, status.RelayPath} {
			r, err := (&source{path: path}).report(body, &rates{now: time.Now})
			if err != nil {
				continue
			}
			var text strings.Builder
			if err := r.print(&text, true); err != nil {
				t.Fatalf("print: %v", err)
			}
			if at := strings.IndexFunc(text.String(), func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); at >= 0 {
				t.Fatalf("there is a control character at %d of %q", at, text.String())
			}
			v := newView(r, time.Second)
			v.resize(40, 10)
			for _, k := range parseKeys([]byte(pressed)) {
				v.press(k)
				if drawn := v.draw(); strings.Count(drawn, "\n") >= 10 {
					t.Fatalf("there are more lines than the terminal has: %q", drawn)
				}
			}
		}
	})
}

// FuzzKeys reads keys: nothing that was pressed gets lost.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("q\x1b[A\x1b[5~é\x1b"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all []byte
		for _, k := range parseKeys(raw) {
			if k == "" {
				t.Fatalf("there is an empty key in %q", raw)
			}
			all = append(all, k...)
		}
		if !slices.Equal(all, raw) {
			t.Errorf("the keys of %q are %q", raw, all)
		}
	})
}
