package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPodsAreRealistic(t *testing.T) {
	var b bytes.Buffer
	newFleet(100).write(&b, 77, 99)
	if b.Len() < 4300 || b.Len() > 5200 {
		t.Errorf("a pod has %d bytes", b.Len())
	}
	var p corev1.Pod
	if err := json.Unmarshal(b.Bytes(), &p); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	if p.ResourceVersion != "99" || len(p.ManagedFields) != 2 || len(p.Status.Conditions) != 4 || len(p.OwnerReferences) != 1 {
		t.Errorf("the pod is not what it should be: %s", b.String())
	}
}

// TestEveryRunReportsItsFigures is the short form: that all of it works, not how fast.
func TestEveryRunReportsItsFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	const pods, events = 300, 200
	results := map[string]figures{}
	for _, o := range plan(pods, events) {
		t.Run(o.name(), func(t *testing.T) {
			t.Setenv("KUBE_FEATURE_WatchListClient", map[bool]string{true: "false", false: "true"}[o.list])
			url, stop := server(t, pods)
			defer stop()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			f, err := measure(ctx, url, o)
			if err != nil {
				t.Fatalf("measure: %v", err)
			}
			results[o.name()] = f
			ours := !strings.HasPrefix(o.subject, "client-go")
			if f.Events <= 0 || f.SyncWall <= 0 || f.GoneWall <= 0 || f.SyncPeak <= 0 {
				t.Errorf("something was not measured: %+v", f)
			}
			if ours && (f.GoneCalls != 0 || f.Backlog > pods) {
				t.Errorf("a 410 with nothing changed made %v calls, a blocked handler has %v keys waiting",
					f.GoneCalls, f.Backlog)
			}
		})
	}
	var out bytes.Buffer
	if err := table(&out, results, pods); err != nil {
		t.Fatalf("table: %v", err)
	}
	if lines := strings.Count(out.String(), "\n"); lines < len(rows()) {
		t.Errorf("the table has %d lines:\n%s", lines, out.String())
	}
}

// TestTheRecordNamesTheCasesOfTheLog: a run that is added takes the place of the former one.
func TestTheRecordNamesTheCasesOfTheLog(t *testing.T) {
	found := map[string]figures{}
	for _, r := range rows() {
		found[r.theirs], found[r.our] = figures{Base: 1}, figures{Base: 1}
	}
	path := filepath.Join(t.TempDir(), "results.json")
	if err := record(path, found, 1, 1); err != nil {
		t.Fatalf("record: %v", err)
	}
	now, before := recordedIn(t, path), recordedIn(t, filepath.Join("..", "log", "results.json"))
	for key := range before {
		if strings.HasPrefix(key, "informer ") && !now[key] {
			t.Errorf("the log has %q, which no run measures", key)
		}
	}
	if len(now) != len(rows()) {
		t.Errorf("the record has %d results of %d rows", len(now), len(rows()))
	}
}

// recordedIn returns the cases with their metrics in a file of results.
func recordedIn(t *testing.T, path string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read the results: %v", err)
	}
	var file struct{ Runs []recorded }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatalf("parse %s: %v", path, err)
	}
	all := map[string]bool{}
	for _, run := range file.Runs {
		for _, r := range run.Results {
			all[r.Case+": "+r.Metric] = true
		}
	}
	return all
}

func TestInformerResumesWithoutAListOnAServerWithHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a server")
	}
	results, err := histories(t.Context())
	if err != nil {
		t.Fatalf("histories: %v", err)
	}
	if f := results[ourHistory]; f.Relists != 0 || f.Resumed <= 0 {
		t.Errorf("cut off and whole again: %+v", f)
	}
}

// server runs the canned server in this process.
func server(t *testing.T, pods int) (url string, stop func()) {
	t.Helper()
	in, closeIn, err := os.Pipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	out, lines := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- serve(t.Context(), pods, in, lines) }()
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("read out: %v", err)
	}
	return strings.TrimSpace(string(line[:n])), func() {
		if err := closeIn.Close(); err != nil {
			t.Errorf("close close in: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
		in.Close()
	}
}
