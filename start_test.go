package gapless_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/store"
)

// tryRun runs a server that is expected to fail.
func tryRun(t *testing.T, cfg gapless.Config) error {
	t.Helper()
	s, err := gapless.New(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	select {
	case err = <-ended:
	case <-s.Ready():
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}
	return err
}

// contents returns the paths below dir, with the contents of files.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[path] = ""
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
	return all
}

func TestFailedStartLeavesNoFiles(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // it has no connections
	write := func(dir, name, body string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(body), 0o600)); err != nil {
			t.Fatalf("make a directory and write a file: %v", err)
		}
	}
	for name, c := range map[string]struct {
		prepare func(dir string)
		change  func(*gapless.Config)
		want    string
	}{
		"address in use": {
			change: func(c *gapless.Config) { c.Listen = taken.Addr().String() }, want: "in use by another program",
		},
		"impossible base":     {change: func(c *gapless.Config) { c.ResourceVersionBase = 1<<63 - 1 }, want: "base revision"},
		"negative base":       {change: func(c *gapless.Config) { c.ResourceVersionBase = -1 }, want: "base revision"},
		"foreign directory":   {prepare: func(dir string) { write(dir, "thesis.tex", "…") }, want: "thesis.tex"},
		"foreign file in log": {prepare: func(dir string) { write(dir, "log/notes.txt", "…") }, want: "notes.txt"},
		"a broken CA": {
			prepare: func(dir string) { write(dir, "pki/ca.crt", "…"); write(dir, "pki/ca.key", "…") }, want: "ca.crt",
		},
		"kubeconfig, a folder": {
			prepare: func(dir string) { write(dir, "kubeconfig/x", "…"); write(dir, "pki/x", "…") }, want: "kubeconfig",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			cfg := gapless.Config{DataDir: filepath.Join(root, "a", "data"), Listen: "127.0.0.1:0"}
			if c.prepare != nil {
				c.prepare(cfg.DataDir)
			}
			if c.change != nil {
				c.change(&cfg)
			}
			before := contents(t, root)
			if err := tryRun(t, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run gives %v, want %q", err, c.want)
			}
			after := contents(t, root)
			for path, body := range after {
				if was, ok := before[path]; !ok || was != body {
					t.Errorf("%s was made or changed", path)
				}
			}
			if len(after) < len(before) {
				t.Errorf("something was removed: %d paths before, %d after", len(before), len(after))
			}
		})
	}
}

// TestSecondServerOnADirectoryChangesNothing tries up to three times: the first server may
// write its own manifest meanwhile, but a second one would write each time.
func TestSecondServerOnADirectoryChangesNothing(t *testing.T) {
	dir := t.TempDir()
	launch(t, gapless.Config{DataDir: dir})
	var changed []string
	for range 3 {
		before := contents(t, dir)
		err := tryRun(t, gapless.Config{DataDir: dir, Listen: "127.0.0.1:0"})
		if _, ok := errors.AsType[*store.LockedError](err); !ok {
			t.Errorf("run gives %v, want LockedError", err)
		}
		changed = nil
		after := contents(t, dir)
		for path, body := range before {
			if after[path] != body {
				changed = append(changed, path)
			}
		}
		if changed == nil {
			return
		}
	}
	t.Errorf("%q were changed by each try", changed)
}

func TestOtherUsersMayNotReadKeysOrWriteData(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("file modes do not have the permissions")
	}
	dir := t.TempDir()
	launch(t, gapless.Config{DataDir: dir}).stop()
	for _, c := range []struct {
		path        string
		usual, mode fs.FileMode
		refused     bool
		fix, warn   string
	}{
		{"", 0o700, 0o777, true, "chmod o-w ", ""},
		{"", 0o700, 0o755, false, "", ""},
		{"", 0o700, 0o770, false, "", dir},
		{"log", 0o700, 0o702, true, "chmod o-w ", ""},
		{"pki", 0o700, 0o1777, true, "chmod o-w ", ""},
		{"pki/ca.key", 0o600, 0o644, true, "chmod go= ", ""},
		{"pki/serving.key", 0o600, 0o602, true, "chmod go= ", ""},
		{"pki/admin.key", 0o600, 0o640, false, "", "admin.key"},
		{"pki/ca.crt", 0o600, 0o644, false, "", ""},
		{"kubeconfig", 0o600, 0o604, true, "chmod go= ", ""},
	} {
		path := filepath.Join(dir, c.path)
		if err := os.Chmod(path, c.mode&fs.ModePerm); err != nil {
			t.Fatalf("change the mode of a file: %v", err)
		}
		var logged bytes.Buffer
		err := tryRun(t, gapless.Config{DataDir: dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if c.refused != (err != nil) || err != nil && !strings.Contains(err.Error(), c.fix+path) {
			t.Errorf("%s with mode %04o: %v, want refused: %v with %q", path, c.mode, err, c.refused, c.fix+path)
		}
		if warned := strings.Contains(logged.String(), "the group can read or write"); warned != (c.warn != "") ||
			!strings.Contains(logged.String(), c.warn) {
			t.Errorf("%s with mode %04o: logged %s", path, c.mode, logged.String())
		}
		if err := os.Chmod(path, c.usual); err != nil {
			t.Fatalf("change the mode of a file: %v", err)
		}
	}
}

// TestClientKeyHasTheConfiguredAlgorithm also restarts with the other algorithm:
// the previous kubeconfig still works.
func TestClientKeyHasTheConfiguredAlgorithm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	if _, err := gapless.New(gapless.Config{
		Memory: true, ClientKeyAlgorithm: "dsa",
	}); err == nil || !strings.Contains(err.Error(), "want ecdsa or rsa") {
		t.Errorf("an unknown algorithm: %v", err)
	}
	dir := t.TempDir()
	first := launch(t, gapless.Config{DataDir: dir, ClientKeyAlgorithm: "rsa"})
	former := first.RESTConfig()
	if !bytes.HasPrefix(former.KeyData, []byte("-----BEGIN RSA PRIVATE KEY-----")) {
		t.Errorf("the key is %.40s", former.KeyData)
	}
	first.stop()
	second := launch(t, gapless.Config{DataDir: dir, ClientKeyAlgorithm: "ecdsa"})
	if key := second.RESTConfig().KeyData; !bytes.HasPrefix(key, []byte("-----BEGIN EC PRIVATE KEY-----")) {
		t.Errorf("the key is %.40s", key)
	}
	former.Host = second.URL()
	web, err := rest.HTTPClientFor(former)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	defer web.CloseIdleConnections()
	resp, err := web.Get(second.URL() + "/api/v1/namespaces/default/configmaps")
	if err != nil {
		t.Fatalf("get web: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with the former key: %s", resp.Status)
	}
}

func TestNegativeLimitIsRefused(t *testing.T) {
	_, err := gapless.New(gapless.Config{Memory: true, Limits: gapless.Limits{Watches: -1}})
	if err == nil || !strings.Contains(err.Error(), "a limit of -1 watches: cannot be negative") {
		t.Error(err)
	}
	if _, err := gapless.New(gapless.Config{Memory: true, Limits: gapless.Limits{Watches: 1}}); err != nil {
		t.Errorf("make the server: %v", err)
	}
}
