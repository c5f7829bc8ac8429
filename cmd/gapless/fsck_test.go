package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const configMapsPath = "/api/v1/namespaces/default/configmaps"

// serveDir runs a server on a data directory while use runs.
func serveDir(t *testing.T, dir string, use func(ask func(method, path, body string) string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	r := begin(t, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--ready-file", file)
	var ready readiness
	eventually(t, "the ready file", func() bool {
		raw, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(raw, &ready) == nil
	})
	cfg, err := clientcmd.BuildConfigFromFlags("", ready.Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	use(func(method, path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := web.Do(req)
		if err != nil {
			t.Fatalf("do web: %v", err)
		}
		answer, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %d %s (%v)", method, path, resp.StatusCode, answer, err)
		}
		return string(answer)
	})
	web.CloseIdleConnections()
	if code := r.end(); code != exitOK {
		t.Fatalf("serve ends with %d:\n%s", code, r.err.String())
	}
}

// spoil changes one byte of a file, behind the first place where what is found.
func spoil(t *testing.T, path, what string, behind int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	at := bytes.Index(b, []byte(what))
	if at < 0 {
		t.Fatalf("%s has no %q", path, what)
	}
	b[at+behind] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}

func TestFsckFindsDamageAndRepairsIt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	serveDir(t, dir, func(ask func(method, path, body string) string) {
		for _, name := range []string{"kept", "broken"} {
			ask(http.MethodPost, configMapsPath,
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"},"data":{"x":"content of `+name+`"}}`)
		}
		if code, _, stderr := command(t, "fsck", dir); code != exitRunTime ||
			!strings.Contains(stderr, "a server is running on "+dir) {
			t.Errorf("beside a server: exit code %d\n%s", code, stderr)
		}
	})
	if code, out, stderr := command(t, "fsck", dir); code != exitOK || !strings.Contains(out, dir+": clean") {
		t.Fatalf("a sound directory: exit code %d\n%s%s", code, out, stderr)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "log", "seg-*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	spoil(t, segments[0], "content of broken", 5)
	spoil(t, filepath.Join(dir, "pki", "admin.key"), "BEGIN", 10)

	code, out, stderr := command(t, "fsck", dir, "-o", "json")
	var report fsckReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitDamaged || report.State != stateDamaged {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, stderr)
	}
	if p := report.Log.Problems; len(p) != 1 || p[0].File != "log/"+filepath.Base(segments[0]) || p[0].Offset < 64 ||
		p[0].Revisions == nil {
		t.Errorf("problems of the log: %+v", p)
	}
	if c := report.Credentials; len(c) == 0 || c[0].File != "pki/admin.key" {
		t.Errorf("problems of the credentials: %+v", c)
	}
	code, out, _ = command(t, "fsck", dir)
	if code != exitDamaged || !strings.Contains(out, "configmaps/default/broken") || !strings.Contains(out, "--repair") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	code, out, _ = command(t, "fsck", dir, "--repair")
	if code != exitLossy || !strings.Contains(out, ": repaired, with losses") ||
		!strings.Contains(out, filepath.Join(dir, "damaged-")) {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	serveDir(t, dir, func(ask func(method, path, body string) string) {
		if list := ask(http.MethodGet, configMapsPath, ""); !strings.Contains(list, "content of kept") ||
			strings.Contains(list, "broken") {
			t.Errorf("after a repair there are %s", list)
		}
	})
	if code, out, _ := command(t, "fsck", dir); code != exitOK {
		t.Errorf("after a repair and a run: exit code %d\n%s", code, out)
	}
}

func TestFsckReportsWhatCannotBeRepaired(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	serveDir(t, dir, func(func(method, path, body string) string) {})
	spoil(t, filepath.Join(dir, "pki", "ca.key"), "BEGIN", 70)
	for _, args := range [][]string{{"fsck", dir}, {"fsck", dir, "--repair"}} {
		code, out, _ := command(t, args...)
		if code != exitBeyond || !strings.Contains(out, "pki/ca.key") {
			t.Errorf("%v: exit code %d\n%s", args, code, out)
		}
	}
	for _, dir := range []string{t.TempDir(), filepath.Join(dir, "nowhere")} {
		if code, _, stderr := command(t, "fsck", dir); code != exitRunTime || !strings.Contains(stderr, dir) {
			t.Errorf("%s: exit code %d\n%s", dir, code, stderr)
		}
	}
}

// TestFsckSaysThatLogsOfEtcdAreNotChecked: a replica makes another one of what etcd has.
func TestFsckSaysThatLogsOfEtcdAreNotChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	serveDir(t, dir, func(func(method, path, body string) string) {})
	if err := os.Rename(filepath.Join(dir, "log"), filepath.Join(dir, "replica")); err != nil {
		t.Fatalf("rename: %v", err)
	}
	code, out, _ := command(t, "fsck", dir)
	if code != exitOK || !strings.Contains(out, filepath.Join(dir, "replica")+": not checked") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestClientsOfARaisedCopyListAgain restores an older copy of a data directory, and asks with a
// version that was given out after the copy was made.
func TestClientsOfARaisedCopyListAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	create := func(ask func(method, path, body string) string, name string) int64 {
		t.Helper()
		var made struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		}
		body := ask(http.MethodPost, configMapsPath, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"}}`)
		if err := json.Unmarshal([]byte(body), &made); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		rv, err := strconv.ParseInt(made.Metadata.ResourceVersion, 10, 64)
		if err != nil {
			t.Fatalf("read a number: %v", err)
		}
		return rv
	}
	var old, lost int64
	serveDir(t, dir, func(ask func(method, path, body string) string) { old = create(ask, "old") })
	backup := filepath.Join(t.TempDir(), "backup")
	err := os.CopyFS(backup, os.DirFS(dir))
	if err == nil { // the copy has other modes
		err = filepath.WalkDir(backup, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return os.Chmod(path, 0o600)
		})
	}
	if err != nil {
		t.Fatalf("copy the directory: %v", err)
	}
	serveDir(t, dir, func(ask func(method, path, body string) string) { lost = create(ask, "lost") })
	for _, wrong := range [][]string{
		{"--bump", "5"}, {"--repair", "--bump", "0"}, {"--repair", "--bump", "-1"}, {"--repair", "--bump", "99999999999999"},
	} {
		if code, _, stderr := command(t, append([]string{"fsck", backup}, wrong...)...); code != exitUsage ||
			!strings.Contains(stderr, "--bump") {
			t.Errorf("%v: exit code %d\n%s", wrong, code, stderr)
		}
	}
	code, out, stderr := command(t, "fsck", backup, "--repair", "--bump", "5000")
	if code != exitOK || !strings.Contains(out, backup+": raised") || !strings.Contains(out, "get 410 and list again") {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	if code, out, _ := command(t, "fsck", backup, "--repair", "--bump", "5000"); code != exitOK ||
		!strings.Contains(out, backup+": clean") || !strings.Contains(out, "raised before: ") {
		t.Errorf("a second time: exit code %d\n%s", code, out)
	}
	serveDir(t, backup, func(ask func(method, path, body string) string) {
		for range 2 {
			for _, rv := range []int64{old, lost, old + 4000, lost + 1_000_000} {
				watch := ask(http.MethodGet, fmt.Sprintf("%s?watch=1&timeoutSeconds=5&resourceVersion=%d", configMapsPath, rv),
					"")
				if !strings.Contains(watch, `"code":410`) || !strings.Contains(watch, `"message":"Replaced"`) {
					t.Errorf("a watch from %d gets %s", rv, watch)
				}
			}
			if list := ask(http.MethodGet, configMapsPath, ""); !strings.Contains(list, `"name":"old"`) ||
				strings.Contains(list, `"name":"lost"`) {
				t.Errorf("there are %s", list)
			}
			if rv := create(ask, fmt.Sprintf("new-%d", time.Now().UnixNano())); rv <= old+5000-100 {
				t.Errorf("a write gets resourceVersion %d, below what was skipped", rv)
			}
		}
	})
}

// TestFsckNamesALossThatItRepairs removes the MANIFEST: whether there was more is not known.
func TestFsckNamesALossThatItRepairs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	serveDir(t, dir, func(func(method, path, body string) string) {})
	if err := os.Remove(filepath.Join(dir, "log", "MANIFEST")); err != nil {
		t.Fatalf("remove a file: %v", err)
	}
	code, out, _ := command(t, "fsck", dir, "--repair")
	if code != exitLossy || !strings.Contains(out, dir+": repaired, with losses") || !strings.Contains(out, "may be lost") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out, _ := command(t, "fsck", dir); code != exitOK {
		t.Errorf("after the repair: exit code %d\n%s", code, out)
	}
	manifest := filepath.Join(dir, "log", "MANIFEST")
	body, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if err := os.WriteFile(manifest, append([]byte("gapless-revlog 9 "), body[len("gapless-revlog 9 "):]...), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if code, out, _ := command(t, "fsck", dir, "--repair"); code != exitRunTime ||
		!strings.Contains(out, dir+": written by a newer version") {
		t.Errorf("a newer format: exit code %d\n%s", code, out)
	}
}
