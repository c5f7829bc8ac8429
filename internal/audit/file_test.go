package audit_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// open opens a log that records everything, with requests and bodies.
func open(t *testing.T, o audit.Options) *audit.Log {
	t.Helper()
	p, err := audit.ParsePolicy([]byte(head + "omitStages: [RequestReceived]\nrules: [{level: Request}]"))
	if err != nil {
		t.Fatalf("parse the policy: %v", err)
	}
	l, err := audit.Open(p, o)
	if err != nil {
		t.Fatalf("open the audit log: %v", err)
	}
	return l
}

// record records a request with a body, and returns whether it may go on.
func record(t *testing.T, l *audit.Log, id, body string) bool {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v1/namespaces/a/configmaps", nil)
	ctx, q, err := l.Begin(t.Context(), audit.Arrived{HTTP: r, ID: id, At: time.Now(), Caller: &user.DefaultInfo{Name: "bob"}})
	if err != nil {
		return false
	}
	q.Body([]byte(body))
	q.Completed(ctx, 201)
	return true
}

// ids returns the ids in a file, in order.
func ids(t *testing.T, content []byte) (all []string) {
	t.Helper()
	for line := range bytes.Lines(content) {
		var e struct {
			AuditID string `json:"auditID"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e.AuditID)
	}
	return all
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if zipped, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
		if content, err = io.ReadAll(zipped); err != nil {
			t.Fatalf("read to the end: %v", err)
		}
	}
	return content
}

func TestRotationLosesNoEvent(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "sub", "audit.log")
		l := open(t, audit.Options{Path: path, MaxSizeMB: 1, MaxBackups: audit.Unlimited, Compress: compressed})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }() // ends with ctx
		body := `{"data":"` + strings.Repeat("x", 300<<10) + `"}`
		var want []string
		for i := range 10 {
			id := fmt.Sprintf("%02d", i)
			want = append(want, id)
			record(t, l, id, body)
		}
		cancel()
		if err := errors.Join(<-ended, l.Close()); err != nil {
			t.Fatalf("wait for the end and close: %v", err)
		}
		// it goes on where it was
		l = open(t, audit.Options{Path: path, MaxSizeMB: 1, MaxBackups: audit.Unlimited, Compress: compressed})
		record(t, l, "10", `{}`)
		if err := l.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "sub", "audit*"))
		if err != nil || len(files) != 4 {
			t.Errorf("files %v, %v; want 4", files, err)
		}
		var got []string
		for _, f := range files {
			got = append(got, ids(t, read(t, f))...)
			if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v, want mode 0600", f, info, err)
			}
		}
		slices.Sort(got)
		if want = append(want, "10"); !slices.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	}
}

func TestOldAndSurplusFilesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		now := time.Now()
		name := func(age time.Duration) string {
			return "audit-" + now.Add(-age).Format("2006-01-02T15-04-05.000") + ".log"
		}
		kept := []string{name(time.Hour), name(2*time.Hour) + ".gz", "audit-other.log", "audit.log.bak"}
		for _, f := range append(slices.Clone(kept), name(3*time.Hour), name(4*time.Hour)+".gz", name(9*24*time.Hour)) {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
		}
		l := open(t, audit.Options{Path: filepath.Join(dir, "audit.log"), MaxBackups: 2, MaxAgeDays: 7})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }() // ends with ctx
		synctest.Wait()
		cancel()
		if err := errors.Join(<-ended, l.Close()); err != nil {
			t.Fatalf("wait for the end and close: %v", err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatalf("list a directory: %v", err)
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		kept = append(kept, "audit.log")
		slices.Sort(kept)
		if !slices.Equal(left, kept) {
			t.Errorf("left %v, want %v", left, kept)
		}
	})
}

// broken is an output that fails on request.
type broken struct {
	bytes.Buffer

	fails bool
}

func (b *broken) Write(p []byte) (int, error) {
	if b.fails {
		return 0, errors.New("no space left on device")
	}
	return b.Buffer.Write(p)
}

func TestModeDecidesWhatAFullDiskDoes(t *testing.T) {
	for mode, want := range map[string]struct{ served, ready bool }{
		audit.ModeBlocking: {true, true},
		audit.ModeStrict:   {false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := audit.ParsePolicy([]byte(head + "rules: [{level: Metadata}]"))
			if err != nil {
				t.Fatalf("parse the policy: %v", err)
			}
			out := &broken{fails: true}
			l, err := audit.Open(p, audit.Options{Path: "-", Stdout: out, Mode: mode})
			if err != nil {
				t.Fatalf("open the audit log: %v", err)
			}
			if served := record(t, l, "1", "{}"); served != want.served {
				t.Errorf("%s: served %t while the disk is full", mode, served)
			}
			if err := l.Check(); (err == nil) != want.ready {
				t.Errorf("%s: health %v", mode, err)
			}
			if n := value(t, l, "apiserver_audit_error_total", "log"); n < 1 {
				t.Errorf("%v events are counted as lost", n)
			}
			out.fails = false
			if !record(t, l, "2", "{}") {
				t.Errorf("%s: refused when there is space again", mode)
			}
			<-time.After(11 * time.Second)
			if err := l.Check(); err != nil {
				t.Errorf("%s: health afterwards: %v", mode, err)
			}
		})
	}
}

func TestBatchIsBoundedAndWrittenAtTheEnd(t *testing.T) {
	var out bytes.Buffer
	l := open(t, audit.Options{Path: "-", Stdout: &out, Mode: audit.ModeBatch, BatchBuffer: 3})
	for _, id := range []string{"1", "2", "3", "4"} {
		if !record(t, l, id, "{}") {
			t.Errorf("request %s is refused", id)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ctx); err != nil {
		t.Fatalf("run: %v", err)
	}
	if got := ids(t, out.Bytes()); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("events %v, want those that had space", got)
	}
	if lost := value(t, l, "apiserver_audit_error_total", "buffered"); lost != 1 {
		t.Errorf("%v events are counted as lost, want 1", lost)
	}
}

func TestTruncatedEventsKeepTheirMetadata(t *testing.T) {
	var out bytes.Buffer
	l := open(t, audit.Options{Path: "-", Stdout: &out, Truncate: true, MaxEventBytes: 2000})
	record(t, l, "small", `{"a":1}`)
	record(t, l, "large", `{"a":"`+strings.Repeat("x", 3<<20)+`"}`)
	record(t, l, strings.Repeat("i", 3000), `{}`)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"requestObject":{"a":1}`) ||
		strings.Contains(lines[1], "requestObject") || !strings.Contains(lines[1], `"audit.k8s.io/truncated":"true"`) {
		t.Errorf("lines %.300q", lines)
	}
	if lost := value(t, l, "apiserver_audit_error_total", "truncate"); lost != 1 {
		t.Errorf("%v events are counted as lost, want 1", lost)
	}
}

func TestHalfALineOfAKilledProcessStaysAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"auditID":"ki`), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	l := open(t, audit.Options{Path: path})
	record(t, l, "1", "{}")
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	_, rest, _ := bytes.Cut(read(t, path), []byte("\n"))
	if got := ids(t, rest); !slices.Equal(got, []string{"1"}) {
		t.Errorf("events %v", got)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for want, o := range map[string]audit.Options{
		"--audit-log-format":                  {Format: "xml"},
		"--audit-log-mode":                    {Mode: "async"},
		"--audit-log-batch-buffer-size":       {BatchBuffer: -1},
		"--audit-log-truncate-max-event-size": {MaxEventBytes: -1},
		"--audit-log-path":                    {Path: t.TempDir()},
	} {
		if _, err := audit.Open(nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %s", o, err, want)
		}
	}
}
