package external_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/internal/auth/external"
)

func TestWithoutAnythingConfiguredThereAreNoTokens(t *testing.T) {
	tokens, err := external.Read(external.Config{Logger: slog.New(slog.DiscardHandler)})
	if tokens != nil || err != nil {
		t.Errorf("%v, %v", tokens, err)
	}
	if tokens.Anonymous() != nil {
		t.Error("nothing says who is anonymous")
	}
}

// FuzzConfiguration reads files: whatever they hold, Read returns tokens or an error.
func FuzzConfiguration(f *testing.F) {
	f.Add("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: https://i\n" +
		"    audiences: [a]\n  claimMappings:\n    username:\n      expression: claims.sub\n")
	f.Add("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\nanonymous:\n  enabled: true\n" +
		"  conditions:\n  - path: /livez\n")
	f.Add("")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, body string) {
		file := filepath.Join(dir, "f")
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		tokens, err := external.Read(external.Config{File: file, Logger: slog.New(slog.DiscardHandler)})
		if (tokens == nil) == (err == nil) {
			t.Errorf("%v, %v", tokens, err)
		}
	})
}
