package gapless

import (
	"context"
	"os"

	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
)

// decrypted returns the log as the registry uses it: values are encrypted as
// Config.EncryptionProviderConfig says. Without that, encrypted values are refused.
func (s *Server) decrypted(ctx context.Context, log store.Store) (*encrypted.Store, error) {
	return encrypted.Open(ctx, log, s.encryption(ctx))
}

// encryption returns how values are encrypted.
func (s *Server) encryption(ctx context.Context) encrypted.Config {
	identity, err := os.Hostname()
	if err != nil {
		identity = "gapless" // it is only a label of metrics
	}
	return encrypted.Config{
		File: s.cfg.EncryptionProviderConfig, Logger: s.cfg.Logger, ServerID: identity,
		Check: func(file string) error { return serve.CheckPrivate(ctx, file, s.cfg.Logger) },
	}
}
