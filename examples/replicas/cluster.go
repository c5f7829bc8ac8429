//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
)

// each is how many members, and how many replicas, there are: with three, one of them may be away.
const each = 3

// cluster is all that is started.
type cluster struct {
	dir      string
	members  []process
	replicas []process
	balancer *balancer
}

// newCluster says what is to be started, and where each part listens. It starts nothing.
func newCluster(ctx context.Context, o options) (*cluster, error) {
	ports, err := freePorts(ctx, 3*each)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: o.dir, balancer: &balancer{}}
	var peers, clients []string
	for i := range each {
		peers = append(peers, fmt.Sprintf("etcd-%d=http://%s", i+1, ports[i]))
		clients = append(clients, "http://"+ports[each+i])
	}
	for i := range each {
		name, listen := fmt.Sprintf("etcd-%d", i+1), ports[2*each+i]
		c.members = append(c.members, process{o.dir, name, o.etcd, []string{
			"--name=" + name, "--data-dir=" + filepath.Join(o.dir, name), "--initial-cluster=" + strings.Join(peers, ","),
			"--listen-peer-urls=http://" + ports[i], "--initial-advertise-peer-urls=http://" + ports[i],
			"--listen-client-urls=" + clients[i], "--advertise-client-urls=" + clients[i],
			"--heartbeat-interval=200", "--election-timeout=2000", // in ms: a laptop has more to do
		}})
		name = fmt.Sprintf("replica-%d", i+1)
		c.replicas = append(c.replicas, process{o.dir, name, o.gapless, []string{
			"serve", "--etcd-servers=" + strings.Join(clients, ","), "--data-dir=" + filepath.Join(o.dir, name),
			"--listen=" + listen, "--ready-file=" + filepath.Join(o.dir, name+".ready"),
		}})
		c.balancer.servers = append(c.balancer.servers, listen)
	}
	var config net.ListenConfig
	if c.balancer.listener, err = config.Listen(ctx, "tcp", o.listen); err != nil {
		return nil, fmt.Errorf("listen for clients (-listen names another address): %w", err)
	}
	return c, nil
}

// close closes what newCluster has opened, if run did not.
func (c *cluster) close() { _ = c.balancer.listener.Close() }

// freePorts returns addresses of this machine that nothing listens on. They differ.
func freePorts(ctx context.Context, n int) ([]string, error) {
	var config net.ListenConfig
	var all []string
	for range n {
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }() // together, so that no port is found twice
		all = append(all, listener.Addr().String())
	}
	return all, nil
}
