package peer

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Credentials are how a client knows a server, and how the server knows the client.
type Credentials struct {
	CA        []byte // PEM: of the server's certificate
	Cert, Key []byte // PEM: of the client; empty without one
	Token     string // empty without one
}

// target returns the server at an address as clients see it.
func (c Credentials) target(address string) (wire.Target, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.CA) {
		return wire.Target{}, errors.New("the server's CA is not a certificate in PEM")
	}
	t := wire.Target{Address: address, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Token: c.Token}
	if len(c.Cert) > 0 {
		pair, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return wire.Target{}, fmt.Errorf("read the client certificate: %w", err)
		}
		t.TLS.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// kubeconfig is the part of a kubeconfig that is read and written here.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Cert  []byte `json:"client-certificate-data,omitempty"`
		Key   []byte `json:"client-key-data,omitempty"`
		Token string `json:"token,omitempty"`
	} `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// readCredentials reads the first cluster and user of a kubeconfig.
func readCredentials(path string) (Credentials, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return Credentials{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	var cfg kubeconfig
	if err := yaml.Unmarshal(raw, &cfg); err != nil {
		return Credentials{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if len(cfg.Clusters) == 0 || len(cfg.Users) == 0 {
		return Credentials{}, errors.New("the kubeconfig names no cluster or no user")
	}
	user := cfg.Users[0].User
	return Credentials{CA: cfg.Clusters[0].Cluster.CA, Cert: user.Cert, Key: user.Key, Token: user.Token}, nil
}

// writeKubeconfig writes a kubeconfig for the server at an address.
func (c Credentials) writeKubeconfig(path, address string) error {
	cfg := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: "it"}
	cluster, user, context := namedCluster{Name: "it"}, namedUser{Name: "it"}, namedContext{Name: "it"}
	cluster.Cluster.Server, cluster.Cluster.CA = "https://"+address, c.CA
	user.User.Cert, user.User.Key, user.User.Token = c.Cert, c.Key, c.Token
	context.Context.Cluster, context.Context.User = "it", "it"
	cfg.Clusters, cfg.Users, cfg.Contexts = []namedCluster{cluster}, []namedUser{user}, []namedContext{context}
	raw, err := json.Marshal(cfg)
	if err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return os.WriteFile(path, raw, 0o600)
}
