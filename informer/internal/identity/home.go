package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"os"

	"k8s.io/client-go/rest"
)

// Home describes a server as something that lasts from one program to the next: its
// address and its CA, because addresses are the same in many clusters. Credentials do
// not count: tokens change from one start to the next.
func Home(cfg *rest.Config) string {
	if cfg == nil {
		return ""
	}
	ca := cfg.CAData
	if len(ca) == 0 && cfg.CAFile != "" {
		ca, _ = os.ReadFile(cfg.CAFile) // without it there will be no connection
	}
	home := cfg.Host + cfg.APIPath
	if len(ca) > 0 {
		sum := sha256.Sum256(ca)
		home += " with CA " + hex.EncodeToString(sum[:8])
	}
	return home
}
