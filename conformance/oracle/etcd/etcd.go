// Package etcd runs an etcd in this process, on ephemeral ports of 127.0.0.1, below an API
// server of upstream. A [Member] is all of its cluster. Where the environment variable TEST_ETCD names a program, it is
// that etcd, of another version maybe, in a process of its own.
package etcd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// compactKey holds the last compacted revision, and its version is the compactors'
// clock: apiserver storage/etcd3/compact.go compactRevKey.
const compactKey = "compact_rev_key"

// Options say how to run a [Member].
type Options struct {
	// Dir is an existing directory, below which its data are.
	Dir string
	// NoSync lets it acknowledge writes before they are on disk.
	NoSync bool
	// MaxRequestBytes is the size of the largest request; 0: etcd's default.
	MaxRequestBytes uint
	// QuotaBytes is how much it stores before it refuses writes; 0: etcd's default.
	QuotaBytes int64
	// Token makes it a cluster of its own: those with the same one have the same id; "": etcd's default.
	Token string
}

// Member is a running member of its own, and a client of it.
type Member struct {
	url    string
	client *clientv3.Client
	end    func() // ends the server, and waits for it
}

// Start starts a member and returns when it is ready. ctx bounds the start only.
func Start(ctx context.Context, options Options) (*Member, error) {
	start := startHere
	if os.Getenv(programVar) != "" {
		start = startProgram
	}
	e, err := start(ctx, options)
	if err != nil {
		return nil, err
	}
	if e.client, err = clientv3.New(clientv3.Config{Endpoints: []string{e.url}}); err != nil {
		e.end()
		return nil, fmt.Errorf("make a client of etcd: %w", err)
	}
	return e, nil
}

// startHere starts a server in this process.
func startHere(ctx context.Context, options Options) (*Member, error) {
	cfg := embed.NewConfig()
	cfg.Name = "oracle"
	cfg.Dir = filepath.Join(options.Dir, "etcd")
	cfg.LogLevel = "fatal" // it calls its own shutdown an error
	cfg.UnsafeNoFsync = options.NoSync
	if options.MaxRequestBytes > 0 {
		cfg.MaxRequestBytes = options.MaxRequestBytes
	}
	cfg.QuotaBackendBytes = options.QuotaBytes
	if options.Token != "" {
		cfg.InitialClusterToken = options.Token
	}
	anyPort := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{anyPort}, []url.URL{anyPort}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
		return &Member{url: "http://" + server.Clients[0].Addr().String(), end: server.Close}, nil
	case err := <-server.Err():
		server.Close()
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		server.Close()
		return nil, fmt.Errorf("wait for etcd: %w", context.Cause(ctx))
	}
}

// URL is where clients reach it.
func (e *Member) URL() string { return e.url }

// Revision returns the current revision.
func (e *Member) Revision(ctx context.Context) (int64, error) {
	resp, err := e.client.Get(ctx, compactKey)
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return resp.Header.Revision, nil
}

// Compact notes the revision first and compacts then, in upstream's order
// (apiserver storage/etcd3/compact.go Compact).
func (e *Member) Compact(ctx context.Context, revision int64) error {
	for {
		now, err := e.client.Get(ctx, compactKey)
		if err != nil {
			return fmt.Errorf("read %s: %w", compactKey, err)
		}
		version := int64(0)
		if len(now.Kvs) > 0 {
			version = now.Kvs[0].Version
		}
		noted, err := e.client.Txn(ctx).
			If(clientv3.Compare(clientv3.Version(compactKey), "=", version)).
			Then(clientv3.OpPut(compactKey, strconv.FormatInt(revision, 10))).
			Commit()
		if err != nil {
			return fmt.Errorf("write %s: %w", compactKey, err)
		}
		if noted.Succeeded {
			break
		}
	}
	if _, err := e.client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compact etcd at %d: %w", revision, err)
	}
	return nil
}

// Stop ends the member and waits for it. It is called once.
func (e *Member) Stop() error {
	err := e.client.Close()
	e.end()
	return err
}
