package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheCommandWrapsTheFilesBelowADirectoryAndListsWhatIsLeft(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatalf("make the directory of %s: %v", name, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatalf("write %s: %v", name, err)
		}
		return path
	}
	a := strings.Repeat("a", 100)
	text := "package p\n\nvar x, y = f(" + a + ", " + a + ")\n"
	wrapped := write("p/p.go", text)
	kept := write("testdata/p.go", text)
	left := write("p/q.go", "package p\n\nvar "+a+a+" = 1\n")
	var out strings.Builder
	if err := run(&out, false, []string{dir}); err != nil {
		t.Fatalf("wrap: %v", err)
	}
	if out.String() != wrapped+"\n" {
		t.Errorf("it says that it changed %q, want %s", out.String(), wrapped)
	}
	for path, want := range map[string]string{wrapped: strings.Replace(text, ", aa", ",\n\taa", 1), kept: text} {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", path, got, err, want)
		}
	}
	out.Reset()
	if err := run(&out, true, []string{dir}); err != nil {
		t.Fatalf("list: %v", err)
	}
	if want := left + ":3: 208 columns\n"; out.String() != want {
		t.Errorf("it lists %q, want %q", out.String(), want)
	}
}
