package encrypted_test

import (
	"crypto/aes"
	"encoding/base64"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage/value"
	aestransformer "k8s.io/apiserver/pkg/storage/value/encrypt/aes"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
)

// registry is a layout without encryption, whose values say that they were encoded.
type registry struct{}

func (registry) Key(key string) (string, error) { return "/registry/" + key, nil }

func (registry) StoreKey(etcdKey string) (string, bool) {
	return strings.CutPrefix(etcdKey, "/registry/")
}

func (registry) Encode(_ string, v []byte, before func() ([]byte, error)) ([]byte, error) {
	stored := append([]byte("encoded "), v...)
	if before == nil {
		return stored, nil
	}
	was, err := before()
	return append(append(stored, " after "...), was...), err
}

func (registry) AppendDecoded(b []byte, _ string, stored []byte) ([]byte, error) {
	v, is := strings.CutPrefix(string(stored), "encoded ")
	if !is {
		return nil, errors.New("it was not encoded")
	}
	return append(b, v...), nil
}

func (registry) Stale(_ string, stored []byte) (bool, error) {
	return string(stored) == "encoded long ago", nil
}

func openLayout(t *testing.T, config string) *encrypted.Layout {
	t.Helper()
	cfg := encrypted.Config{}
	if config != "" {
		cfg.File = filepath.Join(t.TempDir(), "encryption.yaml")
		writeFile(t, cfg.File, config)
	}
	l, err := encrypted.OpenLayout(t.Context(), registry{}, cfg)
	if err != nil {
		t.Fatalf("open the layout: %v", err)
	}
	t.Cleanup(l.Close)
	return l
}

// TestValuesInEtcdAreUpstreams: encoded first, and authenticated with their key in etcd.
func TestValuesInEtcdAreUpstreams(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString(secretOf("key1"))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatalf("make a cipher: %v", err)
	}
	theirs, err := aestransformer.NewGCMTransformer(block)
	if err != nil {
		t.Fatalf("make a GCM transformer: %v", err)
	}
	l := openLayout(t, configuration("secrets", provider("aesgcm", "key1")))
	const prefix, name = "k8s:enc:aesgcm:v1:key1:", "secrets/default/a"
	stored, err := l.Encode(name, []byte("hello"), nil)
	if err != nil || !strings.HasPrefix(string(stored), prefix) {
		t.Fatalf("encode: %.60q, %v, want the prefix %s", stored, err, prefix)
	}
	out, _, err := theirs.TransformFromStorage(t.Context(), stored[len(prefix):], value.DefaultContext("/registry/"+name))
	if err != nil || string(out) != "encoded hello" {
		t.Errorf("upstream reads %q, %v", out, err)
	}
	in, err := theirs.TransformToStorage(t.Context(), []byte("encoded upstream's"), value.DefaultContext("/registry/"+name))
	if err != nil {
		t.Fatalf("encrypt: %v", err)
	}
	if got, err := l.Decode(name, append([]byte(prefix), in...)); err != nil || string(got) != "upstream's" {
		t.Errorf("upstream's value is read as %q, %v", got, err)
	}
	for what, wrong := range map[string]func() ([]byte, error){
		"a value of another key": func() ([]byte, error) { return l.Decode("secrets/default/b", stored) },
		"without the key":        func() ([]byte, error) { return openLayout(t, "").Decode(name, stored) },
		"with another key": func() ([]byte, error) {
			return openLayout(t, configuration("secrets", provider("aesgcm", "key2"))).Decode(name, stored)
		},
	} {
		got, err := wrong()
		if e, is := errors.AsType[*store.UnreadableError](err); !is || e.Encryption != prefix {
			t.Errorf("%s is read as %q, %v, want that it cannot be decrypted, and with what it is encrypted", what, got, err)
		}
	}
}

// TestAnUpdateIsEncodedAfterTheValueThatItReplaces: which is decrypted for that, if it was encrypted.
func TestAnUpdateIsEncodedAfterTheValueThatItReplaces(t *testing.T) {
	l := openLayout(t, configuration("secrets", provider("aesgcm", "key1"), identity))
	const name = "secrets/default/a"
	sealed, err := l.Encode(name, []byte("sealed"), nil)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	away := errors.New("the log is closed")
	for want, was := range map[string][]byte{
		"now after encoded sealed": sealed, "now after encoded plain": []byte("encoded plain"), "now after ": nil,
	} {
		stored, err := l.Encode(name, []byte("now"), func() ([]byte, error) { return was, nil })
		if err != nil || !strings.HasPrefix(string(stored), "k8s:enc:aesgcm:v1:key1:") {
			t.Fatalf("encode: %.60q, %v", stored, err)
		}
		if got, err := l.Decode(name, stored); err != nil || string(got) != want {
			t.Errorf("after %q it is %q, %v, want %q", was, got, err, want)
		}
	}
	if _, err := l.Encode(name, []byte("now"), func() ([]byte, error) { return nil, away }); !errors.Is(err, away) {
		t.Errorf("without the value before: %v", err)
	}
}

func TestOtherResourcesAreNotEncryptedInEtcd(t *testing.T) {
	l := openLayout(t, configuration("secrets", provider("aesgcm", "key1")))
	stored, err := l.Encode("configmaps/default/a", []byte("hello"), nil)
	if err != nil || string(stored) != "encoded hello" {
		t.Errorf("encode: %q, %v", stored, err)
	}
	if got, err := l.Decode("configmaps/default/a", stored); err != nil || string(got) != "hello" {
		t.Errorf("decode: %q, %v", got, err)
	}
}

func TestAValueOfAFormerKeyIsStale(t *testing.T) {
	const name = "secrets/default/a"
	former := openLayout(t, configuration("secrets", provider("aesgcm", "key1")))
	now := openLayout(t, configuration("secrets", provider("aesgcm", "key2"), provider("aesgcm", "key1")))
	for _, c := range []struct {
		by   *encrypted.Layout
		want bool
	}{{former, true}, {now, false}} {
		stored, err := c.by.Encode(name, []byte("hello"), nil)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		if stale, err := now.Stale(t.Context(), name, stored); err != nil || stale != c.want {
			t.Errorf("%.40q is stale: %v, %v, want %v", stored, stale, err, c.want)
		}
	}
}

func TestAValueOfAFormerVersionIsStale(t *testing.T) {
	for _, config := range []string{"", configuration("secrets", provider("aesgcm", "key1"))} {
		l := openLayout(t, config)
		for value, want := range map[string]bool{"long ago": true, "now": false} {
			for _, name := range []string{"secrets/default/a", "configmaps/default/a"} {
				stored, err := l.Encode(name, []byte(value), nil)
				if err != nil {
					t.Fatalf("encode: %v", err)
				}
				if stale, err := l.Stale(t.Context(), name, stored); err != nil || stale != want {
					t.Errorf("%s of %q is stale: %v, %v, want %v", name, value, stale, err, want)
				}
			}
		}
	}
}
