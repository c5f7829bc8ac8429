package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestProfilesAreServedToLocalClientsOnly asks as browsers do for pages of other sites.
func TestProfilesAreServedToLocalClientsOnly(t *testing.T) {
	d, err := startDebug(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start debug: %v", err)
	}
	t.Cleanup(d.stop)
	address := strings.TrimPrefix(d.address(), "http://")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		host, site string
		want       int
	}{
		{address, "", http.StatusOK},
		{"localhost:7070", "", http.StatusOK}, // through ssh -L
		{"localhost", "", http.StatusOK},
		{"[::1]:6060", "", http.StatusOK},
		{"[::1]", "", http.StatusOK},
		{"127.0.0.1", "", http.StatusOK},
		{address, "none", http.StatusOK}, // typed by a person
		{address, "same-origin", http.StatusOK},
		{address, "cross-site", http.StatusForbidden},
		{address, "same-site", http.StatusForbidden}, // another port of localhost
		{"evil.example.com", "", http.StatusForbidden},
		{"evil.example.com:6060", "same-origin", http.StatusForbidden},
		{"localhost.evil.example.com", "", http.StatusForbidden},
		{"127.0.0.1.evil.example.com:6060", "", http.StatusForbidden},
		{"192.0.2.1:6060", "", http.StatusForbidden},
		{"0.0.0.0:6060", "", http.StatusForbidden}, // browsers connect it to this machine
		{"localhost:a:b", "", http.StatusForbidden},
	} {
		for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.address()+path, nil)
			if err != nil {
				t.Fatalf("make a request: %v", err)
			}
			r.Host = c.host
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatalf("send a request: %v", err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != c.want {
				t.Errorf("%s of host %s, %q: %s %s, %v", path, c.host, c.site, resp.Status, body, err)
			}
		}
	}
}
