package processtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// faultsPath is where a server with --enable-faults has its rules, and callsPath begins what
	// else tests do to it (docs/faults.md).
	faultsPath = "/faults"
	callsPath  = "/gapless/v1/test/"
	// compactPath is where an administrator compacts history (docs/extensions.md).
	compactPath = "/gapless/v1/compact"
	// maxAnswer bounds an answer in bytes.
	maxAnswer = 64 << 20
)

// calls sends the calls of tests to one process of a server, as its administrator.
type calls struct {
	url           string
	ca, cert, key []byte
	http          *http.Client
}

// ask is the body of a call.
type ask struct {
	Paths []string `json:"paths,omitempty"`
}

// connect reads the credentials that a server has in its data directory.
func connect(data, address string) (*calls, error) {
	c := &calls{url: address}
	for name, into := range map[string]*[]byte{"ca.crt": &c.ca, "admin.crt": &c.cert, "admin.key": &c.key} {
		text, err := os.ReadFile(filepath.Join(data, "pki", name))
		if err != nil {
			return nil, fmt.Errorf("read the administrator's certificate: %w", err)
		}
		*into = text
	}
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca)
	c.http = &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: roots},
		// A connection that waits would be one that faults cut and restarts end.
		DisableKeepAlives: true,
	}}
	return c, nil
}

func (c *calls) config() *rest.Config {
	return &rest.Config{
		Host:            c.url,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca, CertData: c.cert, KeyData: c.key},
		QPS:             -1, // the server is this test's own: client-go's limit of five requests a second protects nobody
	}
}

// post makes a call, and decodes its answer.
func (c *calls) post(ctx context.Context, name string, body, answer any) error {
	text, err := c.do(ctx, http.MethodPost, callsPath+name, body)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// get reads a document.
func (c *calls) get(ctx context.Context, path string, answer any) error {
	text, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

// compactHistory compacts up to the version of the newest state, which every list of it has.
func (c *calls) compactHistory(ctx context.Context, done *compacted) error {
	var list metav1.PartialObjectMetadataList
	if err := c.get(ctx, "/api/v1/namespaces?limit=1", &list); err != nil {
		return err
	}
	text, err := c.do(ctx, http.MethodPost, compactPath, map[string]string{"upTo": list.ResourceVersion})
	if err != nil {
		return err
	}
	return json.Unmarshal(text, done)
}

// do sends a request, and returns the body of its answer. An answer with a Status of an error
// is that error.
func (c *calls) do(ctx context.Context, method, path string, body any) ([]byte, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil || resp.StatusCode == http.StatusOK {
		return answer, err
	}
	var status metav1.Status
	if err := json.Unmarshal(answer,
		&status); err == nil && resp.StatusCode == http.StatusNotFound && strings.HasPrefix(path, callsPath) {
		return nil, fmt.Errorf(
			"the program does not know the call %s: it is too old, or this module is: use the same version of both", path)
	}
	if status.Message == "" {
		return nil, fmt.Errorf("the server answers %s to %s %s", resp.Status, method, path)
	}
	return nil, errors.New(status.Message)
}

// ruleURL is the path of a rule.
func ruleURL(name string) string { return faultsPath + "/" + url.PathEscape(name) }
