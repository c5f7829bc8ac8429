package audit_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/audit"
)

// probe records a health check, and returns whether it may go on.
func probe(t *testing.T, l *audit.Log, path string) bool {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
	ctx, q, err := l.Begin(t.Context(), audit.Arrived{
		HTTP: r, ID: path, At: time.Now(), Caller: &user.DefaultInfo{Name: "kubelet"},
	})
	if err != nil {
		return false
	}
	q.Completed(ctx, 200)
	return true
}

// openAll opens a log of all stages of all requests.
func openAll(t *testing.T, o audit.Options) *audit.Log {
	t.Helper()
	p, err := audit.ParsePolicy([]byte(head + "rules: [{level: Metadata}]"))
	if err != nil {
		t.Fatalf("parse the policy: %v", err)
	}
	l, err := audit.Open(p, o)
	if err != nil {
		t.Fatalf("open the audit log: %v", err)
	}
	return l
}

func TestAFullDiskStopsNoHealthCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &broken{fails: true}
		l := openAll(t, audit.Options{Path: "-", Stdout: out, Mode: audit.ModeStrict})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }() // ends with ctx
		for _, path := range []string{"/livez", "/readyz/ping", "/healthz?verbose"} {
			if !probe(t, l, path) {
				t.Errorf("%s is refused", path)
			}
		}
		for _, path := range []string{"/livezz", "/api/v1/nodes/livez", "/metrics"} {
			if probe(t, l, path) {
				t.Errorf("%s is not refused", path)
			}
		}
		if err := l.Check(); err == nil {
			t.Error("the server is ready while requests fail")
		}
		synctest.Wait()
		out.fails = false
		probe(t, l, "/livez")
		cancel()
		if err := errors.Join(<-ended, l.Close()); err != nil {
			t.Fatalf("wait for the end and close: %v", err)
		}
		if got := ids(t, out.Bytes()); !slices.Equal(got, []string{"/livez", "/livez"}) {
			t.Errorf("events %v, want the two of the last check", got)
		}
	})
}

// TestAnOutputThatHangsStopsNoHealthCheck is for a disk, or a pipe on standard output.
func TestAnOutputThatHangsStopsNoHealthCheck(t *testing.T) {
	for _, mode := range []string{audit.ModeBlocking, audit.ModeStrict} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			reader, writer := io.Pipe()
			l := openAll(t, audit.Options{Path: "-", Stdout: writer, Mode: mode})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- l.Run(ctx) }() // ends with ctx, when somebody reads
			waited := make(chan bool, 1)
			go func() { waited <- record(t, l, "1", "{}") }() // ends when somebody reads
			ticker := time.NewTicker(20 * time.Millisecond)
			defer ticker.Stop()
			for deadline := time.Now().Add(time.Minute); l.Check() == nil; <-ticker.C {
				if time.Now().After(deadline) {
					t.Fatal("the server stays ready")
				}
				if !probe(t, l, "/livez") {
					t.Fatal("a health check is refused")
				}
			}
			if err := l.Check(); !strings.Contains(err.Error(), "has waited for 3") {
				t.Errorf("health: %v, want how long an event has waited", err)
			}
			for range 2000 { // more than wait
				if !probe(t, l, "/livez") {
					t.Fatal("a health check is refused")
				}
			}
			read := make(chan error, 1)
			go func() { _, err := io.Copy(io.Discard, reader); read <- err }() // ends with the writer
			if !<-waited {
				t.Error("the request that waited is refused")
			}
			cancel()
			if err := errors.Join(<-ended, l.Close(), writer.Close(), <-read); err != nil {
				t.Fatalf("close the log: %v", err)
			}
			if err := l.Check(); err != nil && mode == audit.ModeBlocking {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestALogThatOthersChangeIsOpenedAgain: no event after the change is lost.
func TestALogThatOthersChangeIsOpenedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		before int // events that are there before the others
	}{
		"deleted":           {os.Remove, 0},
		"moved":             {func(path string) error { return os.Rename(path, path+".1") }, 0},
		"directory deleted": {func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, 0},
		"truncated":         {func(path string) error { return os.Truncate(path, 0) }, 0},
		"replaced by another": {
			func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) }, 0,
		},
		"not changed": {func(string) error { return nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sub", "audit.log")
			l := open(t, audit.Options{Path: path, MaxSizeMB: 1})
			record(t, l, "before", `{"data":"`+strings.Repeat("x", 600<<10)+`"}`)
			if err := c.change(path); err != nil {
				t.Fatalf("change the object: %v", err)
			}
			record(t, l, "1", "{}")
			record(t, l, "2", "{}")
			if err := l.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			want := append([]string{"before"}, "1", "2")[1-c.before:]
			if got := ids(t, read(t, path)); !slices.Equal(got, want) {
				t.Errorf("events %v, want %v", got, want)
			}
		})
	}
}
