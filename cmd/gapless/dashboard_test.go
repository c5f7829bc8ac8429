package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/cmd/gapless/readyfile"
)

// TestTheFlagServesADashboard reads it where the ready file says that it is.
func TestTheFlagServesADashboard(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json")
	r := begin(t, "serve", "--memory", "--listen", "127.0.0.1:0", "--dashboard-listen", "127.0.0.1:0", "--ready-file", file)
	var ready readyfile.Ready
	eventually(t, "it is ready", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(text, &ready) == nil
	})
	if !strings.Contains(r.out.String(), "page     "+ready.Dashboard+"\n") {
		t.Errorf("it does not say where the page is: %s", r.out.String())
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, ready.Dashboard+"/", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(req)
	if err != nil {
		t.Fatalf("get the page: %v", err)
	}
	text, err := io.ReadAll(got.Body)
	_ = got.Body.Close()
	if err != nil || got.StatusCode != http.StatusOK || !strings.Contains(string(text), "configmaps") {
		t.Errorf("the page: %s, %v, %s", got.Status, err, text)
	}
	if code := r.end(); code != 0 {
		t.Errorf("it ended with %d: %s", code, r.err.String())
	}
}

func TestAWrongAddressOfADashboardIsRefused(t *testing.T) {
	for address, want := range map[string]string{
		"6480":                   "want an address like 127.0.0.1:6480",
		"https://127.0.0.1":      "want an address like 127.0.0.1:6480",
		"localhost:not-a-number": "dashboard (--dashboard-listen)",
	} {
		code, _, err := command(t, "serve", "--memory", "--listen", "127.0.0.1:0", "--dashboard-listen", address)
		if code == 0 || !strings.Contains(err, want) {
			t.Errorf("%s: %d, %s", address, code, err)
		}
	}
}
