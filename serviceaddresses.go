package gapless

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

// Defaults of the addresses of Services, which are kube-apiserver's.
const (
	DefaultServiceClusterIPRange = "10.0.0.0/24"
	DefaultServiceNodePortRange  = "30000-32767"
)

// servicesName is the resource whose encryption, and cluster of etcd, the registered node ports have.
const servicesName = "services"

// clusterIPRanges returns the ranges of cluster IPs.
func (c Config) clusterIPRanges() ([]netip.Prefix, error) {
	if len(c.ServiceClusterIPRanges) == 0 {
		return addresses.ParseRanges(DefaultServiceClusterIPRange)
	}
	return addresses.ParseRanges(c.ServiceClusterIPRanges...)
}

// nodePortRange returns the range of node ports.
func (c Config) nodePortRange() (utilnet.PortRange, error) {
	return addresses.ParsePorts(cmp.Or(c.ServiceNodePortRange, DefaultServiceNodePortRange))
}

// checkServiceRanges returns what is wrong with the ranges of Services.
func (c Config) checkServiceRanges() error {
	_, addressErr := c.clusterIPRanges()
	_, portErr := c.nodePortRange()
	return errors.Join(addressErr, portErr)
}

// allocate makes what gives Services their addresses. It sees the cluster when the registry is set.
func (s *Server) allocate(cfg *registry.Config) {
	ranges, _ := s.cfg.clusterIPRanges() // withDefaults has checked both
	ports, _ := s.cfg.nodePortRange()
	of := addresses.Config{
		Verbs: s.cluster, Live: s.live, Ranges: ranges, Named: s.cfg.ServiceClusterIPRanges != nil, NodePorts: ports,
		Logger: s.cfg.Logger,
	}
	if s.backend.nodePorts != nil {
		of.Shared = s.backend.nodePorts
		of.Shared.Default = ports
		if s.cfg.ServiceNodePortRange != "" {
			of.Shared.Range = &ports
		}
	}
	s.addresses = addresses.New(of)
	cfg.Followers = append(cfg.Followers, s.addresses)
	cfg.Allocators = map[kinds.GroupResource]registry.Allocator{{Resource: servicesName}: s.addresses}
}

// nodePorts is the registration of node ports in etcd, which kube-apiserver has too.
func (r *replica) nodePorts(prefix string) *addresses.Shared {
	c, at := r.of(servicesName), strings.TrimSuffix(prefix, "/")+"/ranges/servicenodeports"
	return &addresses.Shared{
		Read: func(ctx context.Context) ([]byte, int64, error) {
			resp, err := ask(ctx, c, func(ctx context.Context) (*clientv3.GetResponse, error) { return c.client.Get(ctx, at) })
			if err != nil || len(resp.Kvs) == 0 {
				return nil, 0, err
			}
			value, err := r.layout.DecodeBeside(ctx, servicesName, at, resp.Kvs[0].Value)
			if err != nil {
				return nil, 0, wire.Internal(err)
			}
			return value, resp.Kvs[0].ModRevision, nil
		},
		Write: func(ctx context.Context, value []byte, revision int64) error {
			sealed, err := r.layout.EncodeBeside(servicesName, at, value)
			if err != nil {
				return stored.Failure(err)
			}
			resp, err := ask(ctx, c, func(ctx context.Context) (*clientv3.TxnResponse, error) {
				return c.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(at), "=", revision)).
					Then(clientv3.OpPut(at, string(sealed))).Commit()
			})
			if err == nil && !resp.Succeeded {
				return addresses.ErrMoved
			}
			return err
		},
	}
}

// apiServers looks whether a kube-apiserver has registered itself, which it does again every few seconds: then they
// maintain the endpoints of the Service kubernetes (kubernetes pkg/controlplane/reconcilers/lease.go). Errors: etcd does
// not answer.
func (r *replica) apiServers(prefix string) func(ctx context.Context) (bool, error) {
	at := strings.TrimSuffix(prefix, "/") + "/masterleases/"
	return func(ctx context.Context) (bool, error) {
		resp, err := ask(ctx, r.main, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return r.main.client.Get(ctx, at, clientv3.WithPrefix(), clientv3.WithCountOnly())
		})
		return err == nil && resp.Count > 0, err
	}
}

// ask calls etcd, which must answer in time. Errors are for clients: 503 if it does not.
func ask[T any](ctx context.Context, c *etcdCluster, call func(ctx context.Context) (T, error)) (answer T, err error) {
	if away := c.patient.away(); away != nil {
		return answer, stored.Failure(&store.UnavailableError{Cause: away})
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.patient.patience, errSilent)
	defer cancel()
	answer, err = call(limited)
	switch {
	case ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case err != nil:
		return answer, stored.Failure(&store.UnavailableError{Cause: fmt.Errorf("what is beside objects in etcd: %w", err)})
	}
	return answer, nil
}
