package encrypted

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gapless-io/gapless/internal/store"
)

// Config configures a Store or a Layout.
type Config struct {
	// File is an EncryptionConfiguration; "" encrypts nothing, and refuses to read encrypted
	// values.
	File string
	// Check, if not nil, refuses a file before it is read, at each load.
	Check func(file string) error
	// ServerID is the identity of the server in metrics.
	ServerID string
	Logger   *slog.Logger
}

// Keys are what a configuration encrypts and decrypts with. They are safe for concurrent use.
type Keys struct {
	cfg     Config
	metrics *Metrics
	// ends ends the connections to key management services.
	ends   context.Context //nolint:containedctx // it is the lifetime of what LoadEncryptionConfig starts
	cancel context.CancelFunc

	current atomic.Pointer[generation]
	// data returns the authenticated data of the values of a key of the store.
	data func(key string) string
}

// openKeys loads the configuration; data returns the authenticated data of a key's values.
func openKeys(ctx context.Context, cfg Config, data func(key string) string) (*Keys, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keys{cfg: cfg, metrics: newMetrics(cfg.ServerID), data: data}
	k.ends, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g := &generation{}
	if cfg.File != "" {
		var err error
		if g, err = k.load(); err != nil { //nolint:contextcheck // its connections live longer than the call
			k.cancel()
			return nil, err
		}
	}
	g.number = 1
	k.current.Store(g)
	k.metrics.inForce(g.hash)
	return k, nil
}

// Close ends the connections to key management services.
func (k *Keys) Close() { k.cancel() }

// Metrics returns the metrics of reloads and, with a configuration, of what is encrypted.
func (k *Keys) Metrics() []prometheus.Collector {
	if k.cfg.File == "" {
		return []prometheus.Collector{k.metrics}
	}
	return []prometheus.Collector{k.metrics, Transformations{}}
}

// Healthy returns why key management services cannot be used; nil if they can, or if there
// are none.
func (k *Keys) Healthy() error {
	req, err := http.NewRequestWithContext(k.ends, http.MethodGet, "/healthz", http.NoBody)
	if err != nil {
		return err
	}
	return k.current.Load().healthy(req)
}

// Encrypt returns the value of a key as it is stored.
func (k *Keys) Encrypt(ctx context.Context, key string, v []byte) ([]byte, error) {
	t := k.current.Load().transformer(key)
	if t == nil {
		return v, nil
	}
	out, err := t.encrypt(ctx, key, v)
	if err != nil {
		return nil, fmt.Errorf("encrypt %q: %w", key, err)
	}
	return out, nil
}

// Decrypt is the reverse, also of a value that is not encrypted. A value that cannot be decrypted is
// *store.UnreadableError, without its revision.
func (k *Keys) Decrypt(ctx context.Context, key string, stored []byte) ([]byte, error) {
	v, _, err := k.current.Load().decrypt(ctx, key, stored)
	if err != nil && ctx.Err() == nil {
		err = unreadable(store.Record{Key: key, Value: stored}, err)
	}
	return v, err
}
