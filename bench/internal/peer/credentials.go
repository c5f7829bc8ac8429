package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func rootsFrom(ca []byte) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("its CA is not a certificate in PEM")
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// tlsFrom reads the first cluster and user of a kubeconfig.
func tlsFrom(path string) (*tls.Config, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	var cfg struct {
		Clusters []struct {
			Cluster struct {
				CA []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal(raw, &cfg); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if len(cfg.Clusters) == 0 || len(cfg.Users) == 0 {
		return nil, errors.New("the kubeconfig names no cluster or no user")
	}
	out, err := rootsFrom(cfg.Clusters[0].Cluster.CA)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cfg.Users[0].User.Cert, cfg.Users[0].User.Key)
	if err != nil {
		return nil, fmt.Errorf("read the client certificate: %w", err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}
