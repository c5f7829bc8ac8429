package control_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/fault/control"
)

func TestRulesAreListedAddedAndRemoved(t *testing.T) {
	set := fault.New(1)
	server := httptest.NewServer(control.Handler{Set: set})
	defer server.Close()
	c := &control.Client{URL: server.URL, HTTP: server.Client()}
	all, err := c.Add(t.Context(), fault.Rule{Action: &fault.Gone{As: "http"}}, fault.Rule{
		Name: "slow", Action: &fault.Throttle{BytesPerSecond: 5}, Count: 3,
	})
	if err != nil || len(all) != 2 || all[0].Name != "gone-1" || all[1].Action != "throttle" {
		t.Fatalf("%v, %v", all, err)
	}
	if want := `{"name":"slow","match":{},"action":"throttle","with":{"bytesPerSecond":5},"count":3}`; string(
		all[1].Rule) != want {
		t.Errorf("%s, want %s", all[1].Rule, want)
	}
	for _, wrong := range []fault.Rule{{Name: "slow", Action: &fault.Cut{}}, {Action: &fault.Delay{}}} {
		if _, err := c.Add(t.Context(), wrong); err == nil || strings.Contains(err.Error(), "serve") {
			t.Errorf("%+v gives %v", wrong, err)
		}
	}
	if _, err := c.Remove(t.Context(), "fast"); err == nil || !strings.Contains(err.Error(), `"fast" not found`) {
		t.Errorf("remove a rule that is not there: %v", err)
	}
	if left, err := c.Remove(t.Context(), "gone-1"); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if listed, err := c.List(t.Context()); err != nil || len(listed) != 1 || listed[0].Name != "slow" {
		t.Errorf("%v, %v", listed, err)
	}
	if err := c.Clear(t.Context()); err != nil || len(set.Rules()) != 0 {
		t.Errorf("clear: %v, %v", err, set.Rules())
	}
}

func TestBadRequestsAreAnsweredWithTheReason(t *testing.T) {
	server := httptest.NewServer(control.Handler{Set: fault.New(1)})
	defer server.Close()
	for _, c := range []struct{ method, path, media, body, want string }{
		{"POST", "/faults", "application/yaml", "action: gone", `"gone-1"`},
		{"POST", "/faults", "text/plain", "action: gone", "415"},
		{"POST", "/faults", "application/yaml", "action: [", "400"},
		{"POST", "/faults", "application/yaml", "[]", "there is no rule"},
		{"POST", "/faults", "application/json", strings.Repeat(" ", fault.MaxRulesBytes+1), "413"},
		{"POST", "/faults/x", "application/json", "{}", "405"},
		{"PUT", "/faults", "application/json", "{}", "405"},
		{"DELETE", "/faults?dryRun=All", "", "", "400"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", c.media)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatalf("send a request: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s %q: %s, %v; want %s", c.method, c.path, c.media, body, err, c.want)
		}
	}
}

func TestServerWithoutFaultsIsNamed(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	c := &control.Client{URL: server.URL, HTTP: server.Client()}
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "--enable-faults") {
		t.Errorf("%v", err)
	}
}
