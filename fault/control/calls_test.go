package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/fault/control"
	"github.com/gapless-io/gapless/kube"
)

// server notes what is called.
type server struct{ called []string }

func (s *server) Keep(context.Context) error { s.called = append(s.called, "keep"); return nil }

func (s *server) Reset(context.Context) error {
	s.called = append(s.called, "reset")
	return errors.New("others write")
}

func (s *server) CompactEvery(context.Context) (kube.ResourceVersion, error) {
	s.called = append(s.called, "compact")
	return 17, nil
}

func (s *server) Apply(_ context.Context, paths ...string) error {
	s.called = append(s.called, "apply "+strings.Join(paths, " "))
	return nil
}

func (s *server) Watches() []control.Watch { return []control.Watch{{Resource: "pods", Known: 5}} }

func TestTestsCallAServer(t *testing.T) {
	of := &server{}
	web := httptest.NewServer(control.Calls{Server: of})
	defer web.Close()
	for _, c := range []struct{ method, path, media, body, want string }{
		{"POST", "keep", "application/json", "", "{}"},
		{"POST", "reset", "application/json", "{}", "others write"},
		{"POST", "compact", "application/json", "{}", `{"compacted":"17"}`},
		{"POST", "apply", "application/json", `{"paths":["/a","/b"]}`, "{}"},
		{"GET", "watches", "", "", `"resource":"pods"`},
		{"POST", "apply", "application/json", `{}`, "there are no paths"},
		{"POST", "apply", "application/json", `{"files":["/a"]}`, "unknown field"},
		{"POST", "keep", "text/plain", "{}", "415"},
		{"GET", "keep", "", "", "405"},
		{"POST", "watches", "application/json", "", "405"},
		{"POST", "keep?dryRun=All", "application/json", "", "400"},
		{"POST", "forget", "application/json", "", "404"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, web.URL+fault.CallsPath+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", c.media)
		resp, err := web.Client().Do(req)
		if err != nil {
			t.Fatalf("send a request: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s %s: %s, %v; want %s", c.method, c.path, c.body, body, err, c.want)
		}
	}
	if got := strings.Join(of.called, ", "); got != "keep, reset, compact, apply /a /b" {
		t.Errorf("called: %s", got)
	}
}

func TestRulesInOneLineAreAdded(t *testing.T) {
	set := fault.New(1)
	web := httptest.NewServer(control.Handler{Set: set})
	defer web.Close()
	post := func(lines ...string) string {
		body, err := json.Marshal(lines)
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+fault.AdminPath,
			strings.NewReader(string(body)))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := web.Client().Do(req)
		if err != nil {
			t.Fatalf("send a request: %v", err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("read to the end: %v", err)
		}
		return string(text)
	}
	if text := post("gone,verbs=watch,count=1", "cut"); !strings.Contains(text, "gone-1") || len(set.Rules()) != 2 {
		t.Errorf("%s: %v", text, set.Rules())
	}
	if text := post("cut",
		"gone,verb=watch"); !strings.Contains(text, "the rule \\\"gone,verb=watch\\\"") || len(set.Rules()) != 2 {
		t.Errorf("%s: %v", text, set.Rules())
	}
}

// TestStatesAreReadAsTheyAreListed by another process.
func TestStatesAreReadAsTheyAreListed(t *testing.T) {
	set := fault.New(1)
	if err := set.Continue(fault.State{
		Rule: fault.Rule{Name: "a", Action: &fault.Gone{As: "http"}, Count: 3}, Matched: 7, Acted: 2, InWindow: 6,
	}); err != nil {
		t.Fatalf("continue: %v", err)
	}
	web := httptest.NewRecorder()
	control.Handler{Set: set}.ServeHTTP(web, httptest.NewRequest(http.MethodGet, fault.AdminPath, nil))
	states, err := control.ReadStates(web.Body.Bytes())
	if err != nil || len(states) != 1 {
		t.Fatalf("%v, %v", states, err)
	}
	if s := states[0]; s.Rule.Name != "a" || s.Rule.Count != 3 || s.Matched != 7 || s.Acted != 2 || s.InWindow != 6 ||
		!s.Added.Equal(set.Rules()[0].Added) {
		t.Errorf("%+v", s)
	}
	if _, err := control.ReadStates([]byte("[]")); err == nil {
		t.Error("a list is read")
	}
}
