package mirror_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestSealedObjectsAreNotOnTheDiskAsPlainText(t *testing.T) {
	dir := t.TempDir()
	options := mirror.Options{
		Dir: dir, Key: bytes.Repeat([]byte{7}, mirror.KeyBytes), Sealed: func(name string) bool { return name == "secrets.v1" },
	}
	m, end := open(t, options)
	secret := []byte(`{"metadata":{"name":"s"},"data":{"password":"hunter2hunter2"}}`)
	for _, name := range []string{"secrets.v1", "pods.v1"} {
		c, err := m.Collection(t.Context(), name)
		if err != nil {
			t.Fatalf("open the collection: %v", err)
		}
		object := secret
		if name == "pods.v1" {
			object = []byte(`{"metadata":{"name":"s"},"spec":{"nodeName":"plainplain"}}`)
		}
		if _, err := c.Replace(t.Context(), nil, []mirror.Change{{Key: wire.Key{Name: "s"}, RV: 5, Object: object}},
			7); err != nil {
			t.Fatalf("replace: %v", err)
		}
	}
	end()
	found := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatalf("look for files: %v", err)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		for _, text := range []string{"hunter2hunter2", "plainplain"} {
			found[text] = found[text] || bytes.Contains(content, []byte(text))
		}
	}
	if found["hunter2hunter2"] || !found["plainplain"] {
		t.Errorf("on the disk: %v, want the second text only", found)
	}

	read := func(key byte) (kube.ResourceVersion, []byte, error) {
		options.Key = bytes.Repeat([]byte{key}, mirror.KeyBytes)
		m, end := open(t, options)
		defer end()
		if c, err := m.Collection(t.Context(), "secrets.v1"); err != nil || c.Reached() != 7 {
			t.Fatalf("reached %d, %v", c.Reached(), err)
		}
		page, err := m.Store().Read(t.Context(), store.Query{Start: "secrets.v1/s"})
		if err != nil || len(page.Records) != 1 {
			t.Fatalf("Read = %v, %v", page, err)
		}
		return m.Stored(page.Records[0].Value)
	}
	if rv, object, err := read(7); err != nil || rv != 5 || !bytes.Equal(object, secret) {
		t.Errorf("the object is %d %s, %v", rv, object, err)
	}
	if _, object, err := read(8); !errors.Is(err, mirror.ErrSealed) || object != nil {
		t.Errorf("with another key the object is %s, %v", object, err)
	}
}
