package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
	"sigs.k8s.io/yaml"
)

// server is a gapless server in a process of its own.
type server struct {
	url string
	pid int
	tls *tls.Config
}

// start builds the program, starts it on a directory of its own and stops it
// when the benchmark ends.
func start(b *testing.B) *server {
	b.Helper()
	s := harness.Start(b)
	return &server{url: s.URL, pid: s.PID(), tls: tlsFrom(b, s.Kubeconfig)}
}

func tlsFrom(b *testing.B, kubeconfig string) *tls.Config {
	b.Helper()
	raw, err := os.ReadFile(kubeconfig)
	if err != nil {
		b.Fatal(err)
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
		b.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cfg.Users[0].User.Cert, cfg.Users[0].User.Key)
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.Clusters[0].Cluster.CA)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// client returns an HTTP/1.1 client with a pool of idle connections.
func (s *server) client(conns int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: s.tls.Clone(), MaxIdleConnsPerHost: conns, MaxConnsPerHost: 0,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1
	}}
}

// client2 returns an HTTP/2 client: one connection.
func (s *server) client2() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: s.tls.Clone(), ForceAttemptHTTP2: true}}
}

const collection = "/api/v1/namespaces/default/configmaps"

// configMap is an object with about 1 KiB of payload.
func configMap(name, stamp string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"app":"bench"}},"data":{"sent":%q,"payload":%q}}`,
		name, stamp, strings.Repeat("0123456789abcdef", 64))
}

// do sends a request and fails on anything but a 2xx answer.
func do(ctx context.Context, c *http.Client, method, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, out)
	}
	return out, err
}

// cpu returns the CPU time that the server has used.
func (s *server) cpu(b *testing.B) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		b.Skipf("the server's CPU time is read from /proc: %v", err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
}

// rss returns the resident memory of the server in bytes.
func (s *server) rss(b *testing.B) int64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.pid))
	if err != nil {
		b.Skipf("the server's memory is read from /proc: %v", err)
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(raw))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// fill creates n objects with 16 writers.
func (s *server) fill(b *testing.B, n int) {
	b.Helper()
	client := s.client(16)
	defer client.CloseIdleConnections()
	if err := inParallel(16, n, func(i int) error {
		_, err := do(b.Context(), client, http.MethodPost, s.url+collection, configMap(fmt.Sprintf("fill-%06d", i), ""))
		return err
	}); err != nil {
		b.Fatal(err)
	}
}
