package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

// How a connection is watched: apiserver storage/storagebackend/factory/etcd3.go.
const (
	keepAliveTime    = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
	dialTimeout      = 20 * time.Second
)

// reconnect says how soon a member that could not be reached is tried again. By default grpc waits for up to
// two minutes: a replica would come back that late to an etcd that is there again.
func reconnect() grpc.ConnectParams {
	return grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: firstRetry, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastReconnect},
		MinConnectTimeout: lastReconnect,
	}
}

const lastReconnect = 3 * time.Second

// sendBytes is the largest request that the client sends. etcd has a limit of its own, by default a lower
// one.
const sendBytes = revlog.MaxValueBytes + 1<<20

// Dial returns a client of a cluster. It does not wait for a connection. The caller closes it.
func Dial(ctx context.Context, c Cluster) (*clientv3.Client, error) {
	credentials, err := c.tls()
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: c.Servers, TLS: credentials,
		DialTimeout: dialTimeout, DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout,
		MaxCallSendMsgSize: sendBytes,
		Logger:             zap.NewNop(), // errors are returned
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(once()),
			grpc.WithConnectParams(reconnect()),
		},
	})
}

const txnMethod = "/etcdserverpb.KV/Txn"

// once keeps the client from sending a transaction twice. It sends again what a server answers with
// Canceled or DeadlineExceeded while its caller still waits, though the first one may have taken effect.
func once() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, next grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		err := next(ctx, method, req, reply, conn, opts...)
		if code := status.Code(err); method == txnMethod && ctx.Err() == nil &&
			(code == codes.Canceled || code == codes.DeadlineExceeded) {
			return status.Errorf(codes.Unknown, "etcd ended the call: %v", err)
		}
		return err
	}
}

// CheckForm returns what is wrong with the cluster as far as that can be seen without reading the files.
func (c Cluster) CheckForm() error {
	secure := false
	for _, server := range c.Servers {
		u, err := url.Parse(server)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
			return fmt.Errorf("etcd server %q: want a URL like https://10.0.0.1:2379", server)
		}
		secure = secure || u.Scheme == "https"
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("a client certificate for etcd needs both CertFile and KeyFile (--etcd-certfile, --etcd-keyfile)")
	}
	if !secure && (c.CAFile != "" || c.CertFile != "") {
		return errors.New(
			"certificates for etcd (--etcd-cafile, --etcd-certfile), but all its servers have http URLs: use https")
	}
	return nil
}

// Check reads the files, and returns why they cannot be used.
func (c Cluster) Check() error {
	_, err := c.tls()
	return err
}

// tls returns how to encrypt connections; nil if nothing says so. The client's certificate is read for
// each connection, so that it can be replaced.
func (c Cluster) tls() (*tls.Config, error) {
	if c.CAFile == "" && c.CertFile == "" && c.KeyFile == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority of etcd: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the certificate authority of etcd: %s has no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile == "" && c.KeyFile == "" {
		return cfg, nil
	}
	if c.CertFile == "" || c.KeyFile == "" {
		return nil, errors.New("the client certificate for etcd needs a file for the certificate and one for the key")
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate for etcd: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return cfg, nil
}
