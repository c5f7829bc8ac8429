package encrypted_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage/value"
	aestransformer "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	"k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

func TestStoreWithEverythingEncryptedKeepsTheContract(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		return inMemory(t, configuration(`"*.*"`, provider("aesgcm", "key1")))
	})
}

// TestValuesAreUpstreamsInBothDirections: what is written here is read by upstream's transformers
// with the same key, and the other way round.
func TestValuesAreUpstreamsInBothDirections(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString(secretOf("key1"))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatalf("make a cipher: %v", err)
	}
	gcm, err := aestransformer.NewGCMTransformer(block)
	if err != nil {
		t.Fatalf("make a GCM transformer: %v", err)
	}
	for kind, theirs := range map[string]value.Transformer{
		"aesgcm": gcm, "aescbc": aestransformer.NewCBCTransformer(block),
		"secretbox": secretbox.NewSecretboxTransformer([32]byte(key)),
	} {
		t.Run(kind, func(t *testing.T) {
			f := inMemory(t, configuration("secrets", provider(kind, "key1")))
			put(t, f, "secrets/default/a", "hello")
			stored := get(t, f.log, "secrets/default/a")
			prefix := "k8s:enc:" + kind + ":v1:key1:"
			if !strings.HasPrefix(stored, prefix) || encrypted.Encryption([]byte(stored)) != prefix {
				t.Fatalf("stored as %.60q, want the prefix %s", stored, prefix)
			}
			out, _, err := theirs.TransformFromStorage(t.Context(), []byte(stored)[len(prefix):],
				value.DefaultContext("secrets/default/a"))
			if err != nil || string(out) != "hello" {
				t.Errorf("upstream reads %q, %v", out, err)
			}
			in, err := theirs.TransformToStorage(t.Context(), []byte("from upstream"), value.DefaultContext("secrets/default/b"))
			if err != nil {
				t.Fatalf("encrypt: %v", err)
			}
			put(t, f.log, "secrets/default/b", prefix+string(in))
			if got := get(t, f, "secrets/default/b"); got != "from upstream" {
				t.Errorf("upstream's value is read as %q", got)
			}
			// The key is authenticated where the provider authenticates.
			put(t, f.log, "secrets/default/moved", prefix+string(in))
			_, err = f.Read(t.Context(), store.Query{Start: "secrets/default/moved"})
			if _, is := errors.AsType[*store.UnreadableError](err); is != (kind == "aesgcm") {
				t.Errorf("a value that was moved to another key is read with error %v", err)
			}
		})
	}
}

func TestOnlyConfiguredResourcesAreEncrypted(t *testing.T) {
	for _, c := range []struct{ resources, encrypted string }{
		{"secrets", "secrets"},
		{`secrets, configmaps, deployments.apps`, "secrets configmaps deployments.apps"},
		{`"*."`, "secrets configmaps"},
		{`"*.apps"`, "deployments.apps"},
		{`"*.*"`, "secrets configmaps deployments.apps widgets.example.com"},
	} {
		f := inMemory(t, configuration(c.resources, provider("secretbox", "key1")))
		for _, resource := range []string{"secrets", "configmaps", "deployments.apps", "widgets.example.com"} {
			key := resource + "/default/a"
			put(t, f, key, "text")
			want := strings.Contains(" "+c.encrypted+" ", " "+resource+" ")
			if is := get(t, f.log, key) != "text"; is != want {
				t.Errorf("with %s: %s is encrypted: %v", c.resources, resource, is)
			}
			if got := get(t, f, key); got != "text" {
				t.Errorf("with %s: %s is read as %q", c.resources, resource, got)
			}
		}
	}
}

func TestConflictsAndFeedsAndOldVersionsAreDecrypted(t *testing.T) {
	f := inMemory(t, configuration("secrets", provider("aesgcm", "key1"), identity))
	put(t, f.log, "secrets/default/a", "plain")
	first := put(t, f, "secrets/default/a", "one")
	put(t, f, "secrets/default/a", "two")
	page, err := f.Read(t.Context(), store.Query{Start: "secrets/default/a", AtRevision: first})
	if err != nil || string(page.Records[0].Value) != "one" {
		t.Errorf("the old version is %v, %v", page, err)
	}
	_, err = f.Commit(t.Context(), store.Txn{Key: "secrets/default/a", Value: []byte("three"), ExpectedModRevision: first})
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok || string(conflict.Current.Value) != "two" {
		t.Errorf("the conflict is %v with %v", err, conflict)
	}
	feed, err := f.Changes(t.Context(), store.From{Prefix: "secrets/", UpTo: first + 1})
	if err != nil {
		t.Fatalf("ask for changes: %v", err)
	}
	defer func() { _ = feed.Close() }()
	var seen []string
	for {
		b, err := feed.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read the feed: %v", err)
		}
		for _, c := range b.Changes {
			before := ""
			if c.Previous != nil {
				before = string(c.Previous.Value)
			}
			seen = append(seen, before+">"+string(c.Value))
		}
	}
	if got := strings.Join(seen, " "); got != ">plain plain>one one>two" {
		t.Errorf("the feed has %s", got)
	}
}

func TestValuesOfMissingKeysAreErrorsThatNameThem(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	f := open(t, log, configuration("secrets", provider("secretbox", "key1")))
	old := put(t, f, "secrets/default/a", "one")
	put(t, f, "secrets/default/b", "other")
	for name, content := range map[string]string{
		"another key":      configuration("secrets", provider("secretbox", "key2")),
		"another provider": configuration("secrets", provider("aesgcm", "key1")),
		"identity only":    configuration("secrets", identity),
		"other resources":  configuration("configmaps", provider("secretbox", "key1")),
	} {
		g := open(t, log, content)
		_, err := g.Read(t.Context(), store.Query{Start: "secrets/default/a"})
		e, ok := errors.AsType[*store.UnreadableError](err)
		if !ok || e.Key != "secrets/default/a" || e.Encryption != "k8s:enc:secretbox:v1:key1:" || e.Temporary ||
			e.Revision != old {
			t.Errorf("%s: %v", name, err)
		}
		if g.Readable() == nil {
			t.Errorf("%s: the check of health says nothing", name)
		}
	}
	none, err := encrypted.Open(t.Context(), log, encrypted.Config{})
	if err != nil {
		t.Fatalf("open the encrypted store: %v", err)
	}
	defer none.Close()
	_, err = none.Read(t.Context(), store.Query{Start: "secrets/", End: "secrets0"})
	if err == nil || !strings.Contains(err.Error(), "--encryption-provider-config") {
		t.Errorf("without a configuration: %v", err)
	}
	// What is not encrypted, where that is not allowed.
	put(t, log, "secrets/default/plain", "{}")
	if _, err = f.Read(t.Context(), store.Query{
		Start: "secrets/default/plain",
	}); err == nil || !strings.Contains(err.Error(), "identity") {
		t.Errorf("a plain value without identity: %v", err)
	}
	// Damaged bytes.
	put(t, log, "secrets/default/b", "k8s:enc:secretbox:v1:key1:damaged damaged damaged damaged damaged")
	if _, err = f.Read(t.Context(), store.Query{Start: "secrets/default/b"}); err == nil {
		t.Error("damaged bytes are read")
	}
}

// TestHistoryOfRemovedKeysExpires: superseded versions whose key is gone are as if compacted.
func TestHistoryOfRemovedKeysExpires(t *testing.T) {
	f := inMemory(t, configuration("secrets", provider("aesgcm", "key1")))
	before := put(t, f, "secrets/default/a", "one")
	if err := f.reload(t, configuration("secrets", provider("secretbox", "key2"), provider("aesgcm", "key1"))); err != nil {
		t.Fatalf("reload: %v", err)
	}
	put(t, f, "secrets/default/a", "two")
	for range 2 { // the second one forgets the keys before it
		if err := f.reload(t, configuration("secrets", provider("secretbox", "key2"))); err != nil {
			t.Fatalf("reload: %v", err)
		}
		if err := f.reload(t, configuration("secrets", provider("secretbox", "key2"), identity)); err != nil {
			t.Fatalf("reload: %v", err)
		}
	}
	_, err := f.Read(t.Context(), store.Query{Start: "secrets/default/a", AtRevision: before})
	if e, ok := errors.AsType[*store.CompactedError](err); !ok || e.Resource != "secrets" || e.Floor <= before {
		t.Errorf("the old version gives %v", err)
	}
	feed, err := f.Changes(t.Context(), store.From{Prefix: "secrets/", After: before - 1, UpTo: before + 1})
	if err != nil {
		t.Fatalf("ask for changes: %v", err)
	}
	defer func() { _ = feed.Close() }()
	if _, err = feed.Next(t.Context()); err == nil {
		t.Error("the feed of the old version has no error")
	} else if _, ok := errors.AsType[*store.CompactedError](err); !ok {
		t.Errorf("the feed of the old version gives %v", err)
	}
	if got := get(t, f, "secrets/default/a"); got != "two" {
		t.Errorf("the latest version is %q", got)
	}
}

func FuzzStoredValues(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "k8s:enc:", "k8s:enc:aesgcm:v1:key1:", "k8s:enc:aescbc:v1:key1:1234567890123456", "k8s:enc:secretbox:v1:key1:x",
		"k8s:enc:kms:v2:plugin:\x0a\x03abc", "k8s:enc::::::", "k8s:enc:\xff\xfe:", strings.Repeat("k8s:enc:", 99),
	} {
		f.Add([]byte(seed), "key1")
	}
	file := f.TempDir() + "/encryption.yaml"
	writeFile(f, file,
		configuration("secrets", provider("aesgcm", "key1"), provider("aescbc", "key1"), provider("secretbox", "key1"), identity))
	below := &one{}
	s, err := encrypted.Open(f.Context(), below, encrypted.Config{File: file})
	if err != nil {
		f.Fatalf("open the encrypted store: %v", err)
	}
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, stored []byte, name string) {
		below.record = store.Record{Key: "secrets/" + name, Value: stored, ModRevision: 1}
		page, err := s.Read(t.Context(), store.Query{Start: below.record.Key})
		encryption := encrypted.Encryption(stored)
		switch {
		case err != nil:
			e, ok := errors.AsType[*store.UnreadableError](err)
			if !ok || e.Encryption != encryption || encryption == "" {
				t.Fatalf("%q: %v", stored, err)
			}
		case encryption == "" && !bytes.Equal(page.Records[0].Value, stored):
			t.Fatalf("%q is read as %q", stored, page.Records[0].Value)
		}
		if len(encryption) > 900 {
			t.Fatalf("the beginning of %q is %q", stored, encryption)
		}
	})
}

// one is a store that has one record.
type one struct {
	store.Store

	record store.Record
}

func (o *one) Read(context.Context, store.Query) (store.Page, error) {
	return store.Page{Records: []store.Record{o.record}, Revision: 1}, nil
}
