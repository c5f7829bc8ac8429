package attacks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

// Target is the server that is attacked.
type Target struct {
	server   *program.Server
	upstream *program.Server // of a relay; nil: server is none
	admin    *program.Client
	dir      string // of the attacker's certificate
}

// NewTarget starts the program with what the attacks need: a definition without a
// schema, an object to patch, 500 objects to list, and a certificate for the
// attacker, an administrator, but not the same user as the bystander.
func NewTarget(ctx context.Context, path, dir string, flags ...string) (*Target, error) {
	return start(ctx, program.Config{Path: path, Dir: dir, Flags: flags}, nil)
}

// NewRelayTarget is NewTarget for a relay, which is attacked, in front of a server.
func NewRelayTarget(ctx context.Context, path, dir string, flags ...string) (*Target, error) {
	below := filepath.Join(dir, "upstream")
	if err := os.Mkdir(below, 0o700); err != nil {
		return nil, err
	}
	upstream, err := program.New(program.Config{Path: path, Dir: below})
	if err != nil {
		return nil, err
	}
	if err := upstream.Start(ctx); err != nil {
		return nil, errors.Join(err, upstream.Close())
	}
	return start(ctx, program.Config{Path: path, Dir: dir, Flags: flags, Upstream: upstream}, upstream)
}

func start(ctx context.Context, cfg program.Config, upstream *program.Server) (*Target, error) {
	cfg.Flags = append([]string{"--debug-listen", "127.0.0.1:0"}, cfg.Flags...)
	t := &Target{dir: cfg.Dir, upstream: upstream}
	var err error
	if t.server, err = program.New(cfg); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	if err = t.server.Start(ctx); err == nil {
		t.admin, err = t.server.Client(program.HTTP1)
	}
	if err == nil {
		err = errors.Join(t.certify(), t.fill(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Close ends the programs.
func (t *Target) Close() error {
	if t.admin != nil {
		t.admin.Close()
	}
	var err error
	for _, s := range []*program.Server{t.server, t.upstream} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// fill makes the objects.
func (t *Target) fill(ctx context.Context) error {
	make := func(path, body string) error {
		if a := t.admin.Do(ctx, http.MethodPost, path, []byte(body)); a.Code != http.StatusCreated {
			return fmt.Errorf("make what is attacked: %s", a)
		}
		return nil
	}
	err := make(definitionsPath, definition("looses", "Loose", `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`))
	err = errors.Join(err, make(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"attacked"}}`))
	for i := range 500 {
		err = errors.Join(err,
			make(configMaps,
				fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"listed-%d"},"data":{"x":"%01000d"}}`,
					i, i)))
	}
	return err
}

// certify signs a certificate for the attacker with the CA of the server, or of a relay's upstream.
func (t *Target) certify() error {
	pki := t.server.PKI()
	if t.upstream != nil {
		pki = t.upstream.PKI()
	}
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		return fmt.Errorf("read the CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "attacker", Organization: []string{"system:masters"}},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return fmt.Errorf("sign the attacker's certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(t.server.PKI(), "ca.crt"))
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(t.dir, "ca.crt"), raw, 0o600),
		os.WriteFile(filepath.Join(t.dir, "attacker.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			0o600),
		os.WriteFile(filepath.Join(t.dir, "attacker.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
			0o600),
	)
}

// Refused returns what the server counts as refused, by reason.
func (t *Target) Refused(ctx context.Context) (map[string]int, error) {
	answer := t.admin.Do(ctx, http.MethodGet, "/metrics", nil)
	if answer.Code != http.StatusOK {
		return nil, fmt.Errorf("read the metrics: %s", answer)
	}
	out := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^gapless_refused_total\{reason="([^"]*)"\} (\S+)$`).FindAllSubmatch(answer.Body,
		-1) {
		n, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return nil, err
		}
		out[string(m[1])] = int(n)
	}
	return out, nil
}

// memory reads a value of the process's status, in KB: VmRSS is what it has now,
// VmHWM the most it had.
func (t *Target) memory(name string) (int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.server.PID()))
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB`).FindSubmatch(raw)
	if m == nil {
		return 0, fmt.Errorf("the kernel does not tell %s", name)
	}
	return strconv.Atoi(string(m[1]))
}

// resetPeak resets VmHWM.
func (t *Target) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", t.server.PID()), []byte("5"), 0o200)
}

// settled waits until the resident set has not moved by 1 % for 3 s, for at most a
// limit, and returns it in KB.
func (t *Target) settled(ctx context.Context, limit time.Duration) (int, error) {
	at, err := t.memory("VmRSS")
	if err != nil {
		return 0, err
	}
	since, deadline := time.Now(), time.Now().Add(limit)
	for time.Since(since) < 3*time.Second && time.Now().Before(deadline) {
		pause(ctx, 100*time.Millisecond)
		now, err := t.memory("VmRSS")
		if err != nil {
			return 0, err
		}
		if max(now-at, at-now) > at/100 {
			at, since = now, time.Now()
		}
	}
	return at, ctx.Err()
}
