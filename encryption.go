package gapless

import (
	"context"
	"os"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/serve"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
)

// decrypted returns the log as the registry uses it: values are encrypted as
// Config.EncryptionProviderConfig says. Without that, encrypted values are refused.
func (s *Server) decrypted(ctx context.Context, log store.Store) (*encrypted.Store, error) {
	identity, err := os.Hostname()
	if err != nil {
		identity = "gapless" // it is only a label of metrics
	}
	return encrypted.Open(ctx, log, encrypted.Config{
		File: s.cfg.EncryptionProviderConfig, Logger: s.cfg.Logger, ServerID: identity,
		Check: func(file string) error { return serve.CheckPrivate(ctx, file, s.cfg.Logger) },
	})
}

// encryptionChecks are the checks of health that concern encryption; none without
// Config.EncryptionProviderConfig.
func (s *Server) encryptionChecks() []apiserver.Check {
	if s.cfg.EncryptionProviderConfig == "" {
		return nil
	}
	return []apiserver.Check{
		{Name: "kms-providers", Check: s.values.Healthy}, // upstream's name
		{Name: "encrypted-values", Check: s.values.Readable, ReadyOnly: true},
	}
}
