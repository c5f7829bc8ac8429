package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/relay/kept"
)

const (
	// authenticationPath is where an API server publishes its CA of client certificates: upstream's
	// pkg/controlplane/controller/clusterauthenticationtrust.
	authenticationPath = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
	clientCAKey        = "client-ca-file"
	// loadEvery is how often a ClientCA is read, upstream's interval for files
	// (dynamiccertificates).
	loadEvery = time.Minute
)

// ClientCA is the CA of client certificates of upstream, kept up to date. It is safe for concurrent
// use.
type ClientCA struct {
	read    func(context.Context) ([]byte, error)
	close   func()
	logger  *slog.Logger
	kept    kept.File
	current atomic.Pointer[trust] // nil: nothing was read
}

// trust is what was read. It is immutable.
type trust struct {
	source []byte
	cas    []*x509.Certificate
	pool   *x509.CertPool
}

// ClientCAFromFile returns the CA in a file of PEM certificates. Nothing is read before Load. A nil
// logger discards.
func ClientCAFromFile(path string, logger *slog.Logger) *ClientCA {
	return newClientCA(func(context.Context) ([]byte, error) { return os.ReadFile(path) }, logger)
}

// ClientCAFromUpstream returns the CA that upstream publishes in the ConfigMap
// extension-apiserver-authentication of kube-system, which the user of cfg must be allowed to read
// (upstream has the Role extension-apiserver-authentication-reader for it). Nothing is read before
// Load.
func ClientCAFromUpstream(cfg *rest.Config, logger *slog.Logger) (*ClientCA, error) {
	from, err := client.New(cfg)
	if err != nil {
		return nil, err
	}
	ca := newClientCA(func(ctx context.Context) ([]byte, error) {
		body, err := from.Get(ctx, authenticationPath, "")
		if err != nil {
			return nil, err
		}
		var object corev1.ConfigMap
		if err := json.Unmarshal(body, &object); err != nil {
			return nil, fmt.Errorf("decode the ConfigMap: %w", err)
		}
		text, is := object.Data[clientCAKey]
		if !is {
			return nil, fmt.Errorf(
				"the ConfigMap extension-apiserver-authentication has no %s: upstream takes no client certificates", clientCAKey)
		}
		return []byte(text), nil
	}, logger)
	ca.close = from.CloseIdle
	return ca, nil
}

func newClientCA(read func(context.Context) ([]byte, error), logger *slog.Logger) *ClientCA {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &ClientCA{read: read, close: func() {}, logger: logger}
}

// Keep makes the CA that was kept in a file the current one, as if upstream could not be reached since,
// and keeps in it what Load reads. It is called before Load. Errors: kept.ErrUnusable.
func (c *ClientCA) Keep(f kept.File) error {
	c.kept = f
	source, err := f.Load()
	if err != nil || source == nil {
		return err
	}
	if err := c.set(source); err != nil {
		return f.Unusable(err)
	}
	return nil
}

func (c *ClientCA) set(source []byte) (err error) {
	t := &trust{source: source, pool: x509.NewCertPool()}
	if t.cas, err = cert.ParseCertsPEM(source); err != nil {
		return err
	}
	for _, ca := range t.cas {
		t.pool.AddCert(ca)
	}
	c.current.Store(t)
	return nil
}

// Load reads the CA, for at most 10 s, and reports whether it is another one than before. After an
// error the former one stays. Where there is a former one, it waits for 2 s.
func (c *ClientCA) Load(ctx context.Context) (changed bool, err error) {
	former, within := c.current.Load(), AskWithin
	if former != nil {
		within = askAgainWithin
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	source, err := c.read(limited)
	if err != nil {
		return false, fmt.Errorf("read upstream's CA of client certificates: %w", err)
	}
	if former != nil && bytes.Equal(former.source, source) {
		return false, nil
	}
	if err := c.set(source); err != nil {
		return false, fmt.Errorf("read upstream's CA of client certificates: %w", err)
	}
	if err := c.kept.Save(source); err != nil {
		c.logger.LogAttrs(ctx, slog.LevelWarn, "the CA of client certificates is not kept for the next start",
			slog.Any("error", err))
	}
	return true, nil
}

// Known reports whether there is a CA.
func (c *ClientCA) Known() bool { return c.current.Load() != nil }

// Run loads the CA each minute until ctx ends. It is called once.
func (c *ClientCA) Run(ctx context.Context) error {
	defer c.close()
	ticks := time.NewTicker(loadEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			switch changed, err := c.Load(ctx); {
			case changed:
				c.logger.LogAttrs(ctx, slog.LevelInfo, "upstream's CA of client certificates has changed")
			case err != nil && ctx.Err() == nil:
				c.logger.LogAttrs(ctx, slog.LevelWarn, "the former CA of client certificates is in use", slog.Any("error", err))
			}
		}
	}
}

// Trusted reports whether ca is one whose client certificates count now: for Config.Trusted.
func (c *ClientCA) Trusted(ca *x509.Certificate) bool {
	t := c.current.Load()
	return t != nil && slices.ContainsFunc(t.cas, ca.Equal)
}

// Config returns a configuration like base for a handshake that begins now: it verifies a client
// certificate that is sent against the CA of this moment. Without one it takes none. Who resumes a session
// was verified before; Trusted says whether that still counts.
func (c *ClientCA) Config(base *tls.Config) *tls.Config {
	config := base.Clone()
	if config.NextProtos == nil { // those of a net/http server, which knows only its own configuration
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
	if now := c.current.Load(); now != nil {
		config.ClientCAs = now.pool
	}
	return config
}
