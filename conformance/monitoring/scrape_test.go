package monitoring

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// program builds the program of this repository, or takes the one that GAPLESS_PROGRAM names.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("GAPLESS_PROGRAM"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "gapless")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/gapless")
	build.Dir = root
	build.Env = append(os.Environ(), "GOWORK=") // the repository's, not this module's
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return path
}

// ready is what a program says when it serves.
type ready struct{ URL, Kubeconfig string }

// run runs the program until the test ends, and returns what it says when it serves.
func run(t *testing.T, path string, args ...string) ready {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, append(args, "--ready-file", file)...)
	cmd.Dir = t.TempDir()
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the program: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the program
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := <-ended; err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, said.String())
		}
	})
	for {
		var r ready
		if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &r) == nil {
			return r
		}
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("%s has ended: %v\n%s", args[0], err, said.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// answer returns the answer to a request of somebody who monitors.
func answer(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // it is on loopback, of a CA of the test's own
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Authorization", "Bearer monitoring")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v: %s", url, resp.Status, err, text)
	}
	return string(text)
}

// TestScrapesAreAsThePageSays scrapes a server and a relay before it, as a member of system:monitoring.
func TestScrapesAreAsThePageSays(t *testing.T) {
	gapless, dir := program(t), t.TempDir()
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("monitoring,prometheus,1,system:monitoring\n"), 0o600); err != nil {
		t.Fatalf("write the tokens: %v", err)
	}
	server := run(t, gapless, "serve", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"),
		"--token-auth-file", tokens)
	relay := run(t, gapless, "relay", "--listen", "127.0.0.1:0", "--memory", "--kubeconfig", server.Kubeconfig,
		"--resources", "configmaps")
	known := page(t)
	for _, of := range []ready{server, relay} {
		_ = answer(t, of.URL+"/version")
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(answer(t, of.URL+"/metrics")))
		if err != nil {
			t.Fatalf("read the answer to a scrape: %v", err)
		}
		found := 0
		for name, family := range families {
			if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				continue
			}
			found++
			m, is := known[name]
			if !is {
				t.Errorf("%s is not on the page", name)
				continue
			}
			if kind := strings.ToLower(family.GetType().String()); kind != m.kind {
				t.Errorf("%s is a %s, the page says a %s", name, kind, m.kind)
			}
			for _, metric := range family.GetMetric() {
				if has := namesOf(metric); !slices.Equal(has, slices.Sorted(slices.Values(m.labels))) {
					t.Errorf("%s has the labels %v, the page says %v", name, has, m.labels)
					break
				}
			}
		}
		if found < 20 {
			t.Errorf("%s has %d metrics", of.URL, found)
		}
	}
}

func namesOf(m *dto.Metric) []string {
	var names []string
	for _, l := range m.GetLabel() {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return names
}
