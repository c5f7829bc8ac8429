package kept_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/relay/kept"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAValueComesBackToItsOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "upstream")
	f := kept.In(dir, "resources", kept.SourceOf("https://a", []byte("ca")))
	if value, err := f.Load(); value != nil || err != nil {
		t.Fatalf("a file that is not there: %q, %v", value, err)
	}
	for _, want := range []string{"first\nvalue", ""} {
		if err := f.Save([]byte(want)); err != nil {
			t.Fatalf("save: %v", err)
		}
		if value, err := f.Load(); string(value) != want || err != nil {
			t.Errorf("%q, %v, want %q", value, err, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "resources")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v, want mode 0600", info, err)
	}
	if value, err := (kept.File{}).Load(); value != nil || err != nil || (kept.File{}).Save(nil) != nil {
		t.Errorf("the zero value keeps %q, %v", value, err)
	}
}

func TestAFileThatCannotBeUsedSaysWhy(t *testing.T) {
	dir := t.TempDir()
	of := kept.SourceOf("https://a", nil)
	f := kept.In(dir, "decisions", of)
	path := filepath.Join(dir, "decisions")
	if err := f.Save([]byte("a value")); err != nil {
		t.Fatalf("save: %v", err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	for _, c := range []struct {
		name, want string
		content    []byte
		of         kept.Source
	}{
		{"empty", "it is damaged", nil, of},
		{"cut", "it is damaged", good[:len(good)-1], of},
		{"longer", "it is damaged", append(bytes.Clone(good), 'x'), of},
		{"changed", "it is damaged", bytes.Replace(good, []byte("a value"), []byte("b value"), 1), of},
		{"another kind", "it is damaged", bytes.Replace(good, []byte("decisions"), []byte("documents"), 1), of},
		{"newer", `it has version "2"`, bytes.Replace(good, []byte(" 1 "), []byte(" 2 "), 1), of},
		{"of another upstream", "it is of another API server", good, kept.SourceOf("https://a", []byte("another CA"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
			value, err := kept.In(dir, "decisions", c.of).Load()
			if value != nil || !errors.Is(err, kept.ErrUnusable) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%q, %v, want %q", value, err, c.want)
			}
		})
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("gapless-relay decisions 1 "))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		file := kept.In(dir, "decisions", kept.SourceOf("https://a", nil))
		if err := os.WriteFile(filepath.Join(dir, "decisions"), content, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		value, err := file.Load()
		if err != nil {
			return
		}
		if err := file.Save(value); err != nil {
			t.Fatalf("save file: %v", err)
		}
		if again, err := file.Load(); err != nil || !bytes.Equal(again, value) {
			t.Errorf("%q came back as %q, %v", value, again, err)
		}
	})
}
