package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/fault"
)

// TestThePageOfFaultsSaysWhatTheyHit to who may read the rules, and the faults do not hit the page.
func TestThePageOfFaultsSaysWhatTheyHit(t *testing.T) {
	set := fault.New(1)
	s, _ := runServer(t, func(c *gapless.Config) { c.Faults = set })
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	p.shows("/faults", "No rule is on", `<a href="/faults" aria-current="page">`)
	rules, err := fault.Parse([]byte(`[{"name":"no-maps","match":{"verbs":["list"],"resources":["configmaps"]},
"action":"unavailable"},{"name":"never","match":{"names":["<b>"]},"action":"forbidden"}]`))
	if err != nil {
		t.Fatalf("read the rules: %v", err)
	}
	if err := set.Add(rules...); err != nil {
		t.Fatalf("add the rules: %v", err)
	}
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/api/v1/configmaps", http.NoBody)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		got, err := a.client.Do(r)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if _ = got.Body.Close(); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a list that a rule hits: %s", got.Status)
		}
	}
	body := p.shows("/faults", "no-maps", "unavailable", `<strong>2</strong> rules on`, `<strong>3</strong> hit`,
		`data-label="Hit">3<`, `data-label="Hit">0<`)
	if strings.Contains(body, "<b>") {
		t.Errorf("a name is not escaped: %s", main(body))
	}
	p.shows("/timeline?kind=configmaps.v1") // which lists configmaps, inside
	if set.Rules()[0].Acted != 3 {
		t.Errorf("the page was hit: %d", set.Rules()[0].Acted)
	}
}

// TestTheRulesOfFaultsAreForWhoMayReadThem with credentials.
func TestTheRulesOfFaultsAreForWhoMayReadThem(t *testing.T) {
	s, _ := runServer(t, func(c *gapless.Config) {
		c.DashboardListen, c.Authentication.TokenAuthFile, c.Faults = "https://127.0.0.1:0", tokens(t), fault.New(1)
	})
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(s.RESTConfig()))
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	for token, want := range map[string]int{
		"token-root": http.StatusOK, "token-jane": http.StatusForbidden, "forged": http.StatusUnauthorized,
	} {
		p := page{t, client, s.DashboardURL(), http.Header{"Authorization": {"Bearer " + token}}}
		if code, body := p.get("/faults"); code != want || want != http.StatusOK && strings.Contains(body, "No rule is on") {
			t.Errorf("with %s: %d, want %d: %s", token, code, want, main(body))
		}
	}
}
