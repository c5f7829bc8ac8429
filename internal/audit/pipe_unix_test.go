//go:build unix

package audit_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/audit"
)

// TestAPipeThatNobodyReadsStopsNothing fills a FIFO: requests go on without their events, or are
// refused, health checks do not wait, and the server can be stopped.
func TestAPipeThatNobodyReadsStopsNothing(t *testing.T) {
	for _, mode := range []string{audit.ModeBlocking, audit.ModeStrict} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "audit.fifo")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatalf("make a pipe: %v", err)
			}
			l := openAll(t, audit.Options{Path: path, Mode: mode})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }()                           // ends with ctx
			for _, id := range []string{strings.Repeat("x", 1000), "x"} { // until there is no room for any
				for lost := value(t, l, "apiserver_audit_error_total",
					"log"); value(t, l, "apiserver_audit_error_total", "log") == lost; {
					record(t, l, id, "{}")
				}
			}
			const requests, most = 10, 5 * time.Second // a second each if all had the same patience
			began := time.Now()
			for range requests {
				record(t, l, "x", "{}")
			}
			if took := time.Since(began); took > most {
				t.Errorf("%d requests that follow one that waited take %v", requests, took)
			}
			if served := record(t, l, "1", "{}"); served == (mode == audit.ModeStrict) {
				t.Errorf("a request is served: %t", served)
			}
			if began := time.Now(); !probe(t, l, "/livez") {
				t.Errorf("a health check is refused after %v", time.Since(began))
			}
			if err := l.Check(); (err == nil) != (mode == audit.ModeBlocking) {
				t.Errorf("health: %v", err)
			}
			reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatalf("open a file: %v", err)
			}
			if _, err := io.ReadFull(reader, make([]byte, 16<<10)); err != nil { // there is more
				t.Fatalf("read: %v", err)
			}
			if !record(t, l, "2", "{}") {
				t.Error("a request is refused although somebody reads")
			}
			cancel()
			if err := errors.Join(<-ended, l.Close(), reader.Close()); err != nil {
				t.Fatalf("close the log: %v", err)
			}
		})
	}
}
