package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
)

func TestRestartKeepsObjectsAndHistory(t *testing.T) {
	t.Parallel()
	l := launchRestartable(t)
	l.define(true, false, false)
	first := l.foo("one", "1").rv()
	seen := l.create("default", "a", "1").rv()
	l.create("default", "b", "1")
	moment := l.relabel("default", "a", "2").rv()
	l.remove("default", "b")
	l.foo("one", "2")
	at := map[string]string{}
	paths := []string{
		configMaps, configMaps + "?resourceVersionMatch=Exact&resourceVersion=" + moment, configMaps + "/a",
		foos, foos + "/one", foos + "?resourceVersionMatch=Exact&resourceVersion=" + first, "/api/v1/namespaces", definitions,
	}
	for _, path := range paths {
		at[path] = string(l.do(http.MethodGet, path, "").body)
	}
	l.restart(t)
	for _, path := range paths {
		if got := string(l.do(http.MethodGet, path, "").body); got != at[path] {
			t.Errorf("after the restart %s is\n%s, want\n%s", path, got, at[path])
		}
	}
	if got := l.must(http.StatusOK, http.MethodGet, configMaps+"?resourceVersionMatch=Exact&resourceVersion="+moment,
		"").keys(); got != "default/a default/b" {
		t.Errorf("the state of %s is %s", moment, got)
	}
	missed := l.watch(configMaps + "?watch=1&resourceVersion=" + seen).take(3)
	for _, want := range []string{"ADDED default/b@", ", MODIFIED default/a@" + moment, ", DELETED default/b@"} {
		if !strings.Contains(missed, want) {
			t.Errorf("a watch from before the restart shows %s, want %q in it", missed, want)
		}
	}
	if got := l.must(http.StatusOK, http.MethodGet, foos, "", acceptTable); columns(got) != "Name A" {
		t.Errorf("the columns of the definition are %q", columns(got))
	}
}

// TestWatchResumesAfterARestart reads a watch to its end, restarts, and resumes
// from the last resourceVersion: nothing is missing and nothing comes twice.
func TestWatchResumesAfterARestart(t *testing.T) {
	t.Parallel()
	l := launchRestartable(t)
	var want, got []string
	rv := l.current()
	for life := range 4 {
		s := l.watch(configMaps + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + rv)
		for i := range 10 {
			o := l.create("default", fmt.Sprintf("n%d-%d", life, i), "1")
			want = append(want, "ADDED "+o.key()+"@"+o.rv())
		}
		for range 1 + life*3 { // a part is seen before the end, the rest after
			f := s.next()
			got, rv = append(got, f.String()), f.object.rv()
		}
		s.close()
		l.restart(t)
	}
	s := l.watch(configMaps + "?watch=1&resourceVersion=" + rv)
	for len(got) < len(want) {
		got = append(got, s.next().String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the watch showed\n%q, want\n%q", got, want)
	}
}

func TestQuietResourceSurvivesCompactionAndRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	l := launchRestartable(t)
	old := l.current()
	l.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/secrets",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`)
	for i := range 20 {
		l.create("default", "busy", fmt.Sprint(i))
		l.remove("default", "busy")
	}
	last := l.current()
	l.server.compact(t, last)
	check := func() {
		t.Helper()
		if got := l.watch("/api/v1/secrets?watch=1&resourceVersion=" + old).take(1); !strings.HasPrefix(got, "ADDED default/s@") {
			t.Errorf("the quiet watch shows %s", got)
		}
		l.watch("/api/v1/pods?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=" + old).end("BOOKMARK@" + last)
		l.watch(configMaps + "?watch=1&resourceVersion=" + old).end("ERROR 410 Expired")
	}
	check()
	l.restart(t)
	check()
}

// TestDefinitionEditsInterruptNoWatch grows a definition under an open watch.
func TestDefinitionEditsInterruptNoWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	for _, proto := range []protocol{http1, http2} {
		t.Run(string(proto), func(t *testing.T) {
			l := launchRestartable(t)
			l.define(false, false, false)
			c := l.server.caller(t, proto)
			begin := c.current()
			open := c.watch(foos + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + begin)
			want := []string{"ADDED default/f@" + c.foo("f", "0").rv()}
			for step := range 3 {
				c.define(true, step > 0, step > 1)
				want = append(want, "MODIFIED default/f@"+c.foo("f", fmt.Sprint(step+1)).rv())
			}
			all := strings.Join(want, ", ")
			if got := open.take(len(want)); got != all {
				t.Errorf("the open watch shows %s, want %s", got, all)
			}
			if got := c.watch(foos + "?watch=1&resourceVersion=" + begin).take(len(want)); got != all {
				t.Errorf("a watch from before the edits shows %s, want %s", got, all)
			}
			// The edits are in force, also for older objects.
			if table := c.must(http.StatusOK, http.MethodGet, foos, "", acceptTable); columns(table) != "Name A" {
				t.Errorf("columns are %q", columns(table))
			}
			selected := c.watch(foos + "?watch=1&fieldSelector=spec.a%3D1&resourceVersion=" + begin).take(2)
			if enters, leaves := strings.Replace(want[1], "MODIFIED", "ADDED", 1), strings.Replace(want[2], "MODIFIED", "DELETED",
				1); selected != enters+", "+leaves {
				t.Errorf("the new field selects %s, want %s, %s", selected, enters, leaves)
			}
			second := strings.Replace(foos, "/v1/", "/v2/", 1)
			if o := c.must(http.StatusOK, http.MethodGet, second+"/f", ""); o.text("apiVersion") != "t.example.com/v2" {
				t.Errorf("the second version shows %s", o.text("apiVersion"))
			}
			open.close()
			l.restart(t)
			if got := l.watch(foos + "?watch=1&resourceVersion=" + begin).take(len(want)); got != all {
				t.Errorf("after a restart a watch from before the edits shows %s, want %s", got, all)
			}
		})
	}
}

func TestDirectoryInUseIsRefused(t *testing.T) {
	t.Parallel()
	l := launchRestartable(t)
	if why := refused(t, l.cfg); !strings.Contains(why, "is in use by another process") ||
		!strings.Contains(why, l.cfg.DataDir) || !strings.Contains(why, "--data-dir") {
		t.Errorf("a second server on the directory fails with %q", why)
	}
	l.create("default", "still-works", "1")
}

func TestForeignDirectoryIsNotChanged(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"other files":          {"notes.txt": "hello", "photo.jpg": "\xff\xd8"},
		"other log":            {"log/notes.txt": "hello"},
		"log of something":     {"log/MANIFEST": "bitcask 1 00000000\n{}"},
		"log without manifest": {"log/seg-000000003b9aca01.log": "x"},
		"log of the future":    {"log/MANIFEST": "gapless-revlog 2 00000000\n{}"},
		"a file for a log":     {"log": "hello"},
		"broken certificate":   {"pki/ca.crt": "hello", "pki/ca.key": "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range files {
				path := filepath.Join(dir, filepath.FromSlash(file))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatalf("make a directory: %v", err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatalf("write a file: %v", err)
				}
			}
			if why := refused(t, gapless.Config{DataDir: dir}); !strings.Contains(why, dir) {
				t.Errorf("the error %q does not name the directory", why)
			} else {
				t.Log(why)
			}
			for file, content := range files {
				if b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file))); err != nil || string(b) != content {
					t.Errorf("%s is %q now (%v)", file, b, err)
				}
			}
		})
	}
}

// TestCorruptLogIsRefusedAndNotChanged flips one byte in the middle of what was
// written, is refused, flips it back, and finds everything.
func TestCorruptLogIsRefusedAndNotChanged(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	l := launchRestartable(t)
	for i := range 20 {
		l.create("default", fmt.Sprintf("n%02d", i), strings.Repeat("x", 60))
	}
	before := l.must(http.StatusOK, http.MethodGet, configMaps, "")
	l.http.CloseIdleConnections()
	l.server.stop()
	segments, err := filepath.Glob(filepath.Join(l.cfg.DataDir, "log", "seg-*"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	sound, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	written := len(bytes.TrimRight(sound, "\x00"))
	for _, at := range []int{written / 4, written / 2, written - 100} {
		bad := bytes.Clone(sound)
		bad[at] ^= 0x10
		if err := os.WriteFile(segments[0], bad, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		if why := refused(t, l.cfg); !strings.Contains(why, segments[0]) || !strings.Contains(why, "restore") {
			t.Errorf("with a flipped bit at %d of %d the error is %q", at, written, why)
		} else {
			t.Log(why)
		}
		if now, err := os.ReadFile(segments[0]); err != nil || !bytes.Equal(now, bad) {
			t.Errorf("the damaged file was changed (%v)", err)
		}
	}
	if err := os.WriteFile(segments[0], sound, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	l.start(t)
	if after := l.must(http.StatusOK, http.MethodGet, configMaps, ""); after.keys() != before.keys() ||
		after.rv() != before.rv() {
		t.Errorf("the repaired log has %s at %s, want %s at %s", after.keys(), after.rv(), before.keys(), before.rv())
	}
}
