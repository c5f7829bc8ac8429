package encrypted_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secretOf returns a key of 32 bytes in base64.
func secretOf(name string) string {
	return base64.StdEncoding.EncodeToString([]byte((name + strings.Repeat("#", 32))[:32]))
}

// provider returns a provider with keys of the given names.
func provider(kind string, names ...string) string {
	out := "  - " + kind + ":\n      keys:\n"
	for _, name := range names {
		out += fmt.Sprintf("      - {name: %s, secret: %s}\n", name, secretOf(name))
	}
	return out
}

const identity = "  - identity: {}\n"

// configuration returns a file's content for some resources.
func configuration(resources string, providers ...string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [" + resources +
		"]\n  providers:\n" + strings.Join(providers, "")
}

func writeFile(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatalf("write a file: %v", err)
	}
}

// fixture is a log with a store over it.
type fixture struct {
	*encrypted.Store

	log  *revlog.Log
	file string
}

// Close closes the log; storetest looks for it.
func (f *fixture) Close() error { return f.log.Close() }

// openLog runs a log until the test ends.
func openLog(tb testing.TB, o revlog.Options) *revlog.Log {
	tb.Helper()
	log, err := revlog.Open(tb.Context(), o)
	if err != nil {
		tb.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(tb.Context())) }() // ends with Close
	tb.Cleanup(func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			tb.Errorf("close the log and wait for the end: %v", err)
		}
	})
	return log
}

// open opens a store over a log, with a configuration.
func open(tb testing.TB, log *revlog.Log, content string) *fixture {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "encryption.yaml")
	writeFile(tb, file, content)
	s, err := encrypted.Open(tb.Context(), log, encrypted.Config{
		File: file, ServerID: "test", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatalf("open the encrypted store: %v", err)
	}
	tb.Cleanup(s.Close)
	return &fixture{Store: s, log: log, file: file}
}

// inMemory opens a store over a log in memory.
func inMemory(tb testing.TB, content string) *fixture {
	tb.Helper()
	return open(tb, openLog(tb, revlog.Options{Memory: true}), content)
}

// put writes a value over the version that the store has.
func put(tb testing.TB, s store.Store, key, v string) int64 {
	tb.Helper()
	page, err := s.Read(tb.Context(), store.Query{Start: key, Want: func(string, int64) bool { return false }})
	if err != nil {
		tb.Fatalf("read: %v", err)
	}
	t := store.Txn{Key: key, Value: []byte(v)}
	if len(page.Records) > 0 {
		t.ExpectedModRevision = page.Records[0].ModRevision
	}
	done, err := s.Commit(tb.Context(), t)
	if err != nil {
		tb.Fatalf("write %s: %v", key, err)
	}
	return done.Revision
}

// get reads the latest version of a key.
func get(tb testing.TB, s store.Store, key string) string {
	tb.Helper()
	page, err := s.Read(tb.Context(), store.Query{Start: key})
	if err != nil {
		tb.Fatalf("read %s: %v", key, err)
	}
	if len(page.Records) != 1 {
		tb.Fatalf("%s has %d records", key, len(page.Records))
	}
	return string(page.Records[0].Value)
}

// reload replaces the file and loads it.
func (f *fixture) reload(tb testing.TB, content string) error {
	tb.Helper()
	writeFile(tb, f.file, content)
	return f.Reload(tb.Context())
}
