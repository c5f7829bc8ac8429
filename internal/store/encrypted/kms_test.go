package encrypted_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// plugin is a key management service of the KMS v2 API over a socket. Its keys are masks.
type plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer

	socket string
	server *grpc.Server
	ended  chan error

	// mu guards the following.
	mu       sync.Mutex
	keyID    string
	broken   bool
	answer   chan struct{} // nil, or Decrypt answers when it is closed
	decrypts int
}

func newPlugin(t *testing.T) *plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &plugin{socket: filepath.Join(dir, "kms.sock"), keyID: "k1"}
	p.start(t)
	t.Cleanup(p.stop)
	return p
}

func (p *plugin) start(t *testing.T) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", p.socket)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p.server, p.ended = grpc.NewServer(), make(chan error, 1)
	kmsapi.RegisterKeyManagementServiceServer(p.server, p)
	go func() { p.ended <- p.server.Serve(l) }() // ends with stop
}

func (p *plugin) stop() {
	if p.server != nil {
		p.server.Stop()
		<-p.ended //nolint:errcheck // it was stopped
		p.server = nil
	}
}

func (p *plugin) set(keyID string, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keyID, p.broken = keyID, broken
}

func (p *plugin) state() (keyID string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return "", status.Error(codes.Unavailable, "the key store is away")
	}
	return p.keyID, nil
}

func mask(keyID string, b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0x5a + keyID[len(keyID)-1]
	}
	return out
}

func (p *plugin) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	id, err := p.state()
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: id}, err
}

func (p *plugin) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	id, err := p.state()
	if err != nil {
		return nil, err
	}
	return &kmsapi.EncryptResponse{KeyId: id, Ciphertext: mask(id, r.GetPlaintext())}, nil
}

func (p *plugin) Decrypt(ctx context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	p.mu.Lock()
	answer := p.answer
	p.mu.Unlock()
	if answer != nil {
		select {
		case <-answer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if _, err := p.state(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.decrypts++
	p.mu.Unlock()
	return &kmsapi.DecryptResponse{Plaintext: mask(r.GetKeyId(), r.GetCiphertext())}, nil
}

// provider is the plugin in a configuration.
func (p *plugin) provider() string {
	return fmt.Sprintf("  - kms: {apiVersion: v2, name: plugin, endpoint: 'unix://%s', timeout: 2s}\n", p.socket)
}

func TestKMSEncryptsWithOneDataKeyAndOutlivesItsPlugin(t *testing.T) {
	p := newPlugin(t)
	log := openLog(t, revlog.Options{Memory: true})
	f := open(t, log, configuration("secrets", p.provider(), identity))
	for i := range 100 {
		put(t, f, fmt.Sprintf("secrets/default/%d", i), "hello")
	}
	if got := encrypted.Encryption([]byte(get(t, log, "secrets/default/7"))); got != "k8s:enc:kms:v2:plugin:" {
		t.Errorf("the value begins with %q", got)
	}
	if err := f.Healthy(); err != nil {
		t.Errorf("health: %v", err)
	}
	// The data key stays in memory while the plugin is away (upstream: three minutes for writes).
	p.stop()
	put(t, f, "secrets/default/a", "written without the plugin")
	if got := get(t, f, "secrets/default/a"); got != "written without the plugin" {
		t.Errorf("read %q without the plugin", got)
	}
	p.start(t)
	// A start asks the plugin once for all values of a data key.
	p.mu.Lock()
	p.decrypts = 0
	p.mu.Unlock()
	again := open(t, log, configuration("secrets", p.provider()))
	page, err := again.Read(t.Context(), store.Query{Start: "secrets/", End: "secrets0"})
	if err != nil || len(page.Records) != 101 || string(page.Records[0].Value) != "hello" {
		t.Fatalf("after a restart: %d records, %v", len(page.Records), err)
	}
	if p.decrypts != 1 {
		t.Errorf("the plugin was asked for %d data keys, want 1", p.decrypts)
	}
}

func TestKMSThatIsDownIsTemporaryAndShownByHealth(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p := newPlugin(t)
	log := openLog(t, revlog.Options{Memory: true})
	rv := put(t, open(t, log, configuration("secrets", p.provider())), "secrets/default/a", "hello")
	p.set("k1", true)
	f := open(t, log, configuration("secrets", p.provider()))
	_, err := f.Read(t.Context(), store.Query{Start: "secrets/default/a"})
	if e, is := errors.AsType[*store.UnreadableError](err); !is || !e.Temporary {
		t.Fatalf("read while the plugin fails: %v", err)
	}
	if f.Readable() != nil {
		t.Error("a temporary failure counts as loss")
	}
	if f.Healthy() == nil {
		t.Error("the plugin fails, and health says nothing")
	}
	if _, err := f.Commit(t.Context(), store.Txn{Key: "secrets/default/b", Value: []byte("x")}); err == nil {
		t.Error("a write that could not be encrypted is accepted")
	}
	if _, err := f.Read(t.Context(), store.Query{Start: "secrets/default/b"}); err != nil {
		t.Errorf("after the refused write: %v", err)
	}
	// A held feed waits; it delivers everything once the plugin is back.
	held, err := f.Changes(t.Context(), store.From{After: rv - 1, Hold: true})
	if err != nil {
		t.Fatalf("ask for changes: %v", err)
	}
	defer func() { _ = held.Close() }()
	got := make(chan string, 1)
	go func() { // ends with the change
		b, err := held.Next(t.Context())
		got <- fmt.Sprintf("%v %d %s", err, len(b.Changes), b.Changes[0].Value)
	}()
	// Another feed says so, and goes on later.
	other, err := f.Changes(t.Context(), store.From{After: rv - 1, UpTo: rv})
	if err != nil {
		t.Fatalf("ask for changes: %v", err)
	}
	defer func() { _ = other.Close() }()
	_, err = other.Next(t.Context())
	if e, is := errors.AsType[*store.UnreadableError](err); !is || !e.Temporary {
		t.Fatalf("a feed while the plugin fails: %v", err)
	}
	p.set("k1", false)
	for { // until the library has noticed
		b, err := other.Next(t.Context())
		if err == nil {
			if string(b.Changes[0].Value) != "hello" {
				t.Errorf("then the feed has %q", b.Changes[0].Value)
			}
			break
		}
		if errors.Is(err, io.EOF) {
			t.Fatal("the feed has ended without the change")
		}
	}
	if g := <-got; g != "<nil> 1 hello" {
		t.Errorf("the held feed: %s", g)
	}
}

// TestKMSKeyRotationMakesValuesStale: when the plugin has another key, what is encrypted with
// the former one is readable, and stale. The library asks every minute, a new store at once.
func TestKMSKeyRotationMakesValuesStale(t *testing.T) {
	p := newPlugin(t)
	log := openLog(t, revlog.Options{Memory: true})
	rv := put(t, open(t, log, configuration("secrets", p.provider())), "secrets/default/a", "hello")
	p.set("k2", false)
	f := open(t, log, configuration("secrets", p.provider()))
	if stale, err := f.Stale(t.Context(), "secrets/default/a", rv); err != nil || !stale {
		t.Errorf("a value of the former key is stale: %v, %v", stale, err)
	}
	rv = put(t, f, "secrets/default/a", get(t, f, "secrets/default/a"))
	if stale, err := f.Stale(t.Context(), "secrets/default/a", rv); err != nil || stale {
		t.Errorf("a value of the present key is stale: %v, %v", stale, err)
	}
}

func TestReloadRefusesAPluginThatIsDown(t *testing.T) {
	p := newPlugin(t)
	f := inMemory(t, configuration("secrets", identity))
	put(t, f, "secrets/default/a", "hello")
	p.set("k1", true)
	if err := f.reload(t, configuration("secrets", p.provider(), identity)); err == nil {
		t.Error("a plugin that fails comes into force")
	}
	p.set("k1", false)
	if err := f.Reload(t.Context()); err != nil {
		t.Errorf("reload: %v", err)
	}
	put(t, f, "secrets/default/a", "hello")
	if got := encrypted.Encryption([]byte(get(t, f.log, "secrets/default/a"))); got != "k8s:enc:kms:v2:plugin:" {
		t.Errorf("the value begins with %q", got)
	}
}

// TestAPluginThatDoesNotAnswerCostsOneTimeout: what its keys are known for can be read meanwhile, and all else when it
// answers again.
func TestAPluginThatDoesNotAnswerCostsOneTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p := newPlugin(t)
	log := openLog(t, revlog.Options{Memory: true})
	const values = 20
	before := open(t, log, configuration("secrets", p.provider()))
	for i := range values {
		put(t, before, fmt.Sprintf("secrets/default/%d", i), "hello")
	}
	f := open(t, log, configuration("secrets", p.provider()))
	put(t, f, "secrets/default/own", "with a key that is known")
	answer := make(chan struct{})
	p.mu.Lock()
	p.answer = answer
	p.mu.Unlock()
	read := func(name string) (string, error) {
		page, err := f.Read(t.Context(), store.Query{Start: "secrets/default/" + name})
		if err != nil {
			return "", err
		}
		return string(page.Records[0].Value), nil
	}
	var began time.Time
	for i := range values {
		_, err := read(strconv.Itoa(i))
		if e, is := errors.AsType[*store.UnreadableError](err); !is || !e.Temporary {
			t.Fatalf("read while the plugin does not answer: %v", err)
		}
		if i == 0 {
			began = time.Now() // the first one has waited
		}
		if got, err := read("own"); err != nil || got != "with a key that is known" {
			t.Fatalf("read what needs no answer: %q, %v", got, err)
		}
	}
	// Each would take two seconds, the timeout in the configuration.
	if took := time.Since(began); took > values*time.Second {
		t.Errorf("the others took %v", took)
	}
	close(answer)
	for range time.Tick(10 * time.Millisecond) {
		got, err := read("0")
		if err == nil && got == "hello" {
			break
		}
		if e, is := errors.AsType[*store.UnreadableError](err); !is || !e.Temporary {
			t.Fatalf("read when the plugin answers again: %q, %v", got, err)
		}
	}
}
