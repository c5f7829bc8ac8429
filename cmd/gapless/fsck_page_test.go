package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFsckDocShowsItsOutput damages an old version of an object, and compares the
// report with the one that docs/fsck.md shows, in which … stands for anything.
func TestFsckDocShowsItsOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	page, err := os.ReadFile("../../docs/fsck.md")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	shown := regexp.MustCompile("(?s)```console\n\\$ gapless fsck [^\n]*\n(.*?)```").FindStringSubmatch(string(page))
	if shown == nil {
		t.Fatal("docs/fsck.md shows no report")
	}
	dir := filepath.Join(t.TempDir(), "gapless-data")
	serveDir(t, dir, func(ask func(method, path, body string) string) {
		ask(http.MethodPost, configMapsPath,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"x":"the first content"}}`)
		ask(http.MethodPut, configMapsPath+"/settings",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"x":"the next content"}}`)
	})
	segments, err := filepath.Glob(filepath.Join(dir, "log", "seg-*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("segments %v, %v", segments, err)
	}
	spoil(t, segments[0], "the first content", 5)
	code, out, stderr := command(t, "fsck", dir)
	if code != exitDamaged {
		t.Fatalf("exit code %d:\n%s%s", code, out, stderr)
	}
	want := regexp.QuoteMeta(strings.TrimSpace(shown[1]))
	for _, general := range [][2]string{
		{`seg-[0-9a-f]+`, "seg-[0-9a-f]+"}, {` [0-9]+`, " [0-9]+"}, {`([0-9]\+ segment)s`, "${1}s?"}, {` +`, " +"}, {"…", ".*"},
	} {
		want = regexp.MustCompile(general[0]).ReplaceAllString(want, general[1])
	}
	if !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("it prints\n%s\nand not, as docs/fsck.md says,\n%s", out, shown[1])
	}
}
