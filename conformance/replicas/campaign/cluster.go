package campaign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
)

// member is a member of etcd, in a process of its own.
type member struct {
	etcd.Identity

	id      string // as members name each other
	log     *os.File
	process *program.Process // nil: it was killed
	peers   *link            // by which the others reach it
}

func (m *member) start() error {
	cmd, err := m.Command(context.Background())
	if err != nil {
		return fmt.Errorf("describe the member %s: %w", m.Name, err)
	}
	cmd.Stdout, cmd.Stderr = m.log, m.log
	m.process, err = program.Launch(cmd)
	if err != nil {
		return fmt.Errorf("start the member %s: %w", m.Name, err)
	}
	return nil
}

func (m *member) kill() error {
	p := m.process
	if p == nil {
		return nil
	}
	m.process = nil
	if err := p.Kill(); err != nil {
		return fmt.Errorf("kill the member %s: %w", m.Name, err)
	}
	return nil
}

// replica is a server over etcd, in a process of its own.
type replica struct {
	name    string
	dir     string
	server  *program.Server
	clients *link   // by which its clients reach it
	etcd    []*link // by which it reaches each member
	read    int64   // how much of its log was searched for holes
}

// url is where its clients reach it.
func (r *replica) url() string { return "https://" + r.clients.address() }

// cluster is all members and all replicas.
type cluster struct {
	members  []*member
	replicas []*replica
	client   *clientv3.Client // of all members, without links
}

// newCluster starts them below a directory.
func newCluster(ctx context.Context, cfg Config) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err := c.startMembers(ctx, cfg); err != nil {
		return c, err
	}
	for i := range replicas {
		if err := c.startReplica(ctx, i, cfg); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *cluster) startMembers(ctx context.Context, cfg Config) error {
	var all, urls []string
	for i := range members {
		name := "m" + strconv.Itoa(i)
		m := &member{Identity: etcd.Identity{Name: name, Dir: filepath.Join(cfg.Dir, name), Election: cfg.Election}}
		peers := "127.0.0.1:" + cfg.Port()
		m.Client, m.ListenPeer = "http://127.0.0.1:"+cfg.Port(), "http://"+peers
		var err error
		if m.peers, err = newLink(peers); err != nil {
			return err
		}
		c.members = append(c.members, m)
		m.Peer = "http://" + m.peers.address()
		if m.log, err = os.Create(filepath.Join(cfg.Dir, m.Name+".log")); err != nil {
			return fmt.Errorf("make the log of a member: %w", err)
		}
		all, urls = append(all, m.Name+"="+m.Peer), append(urls, m.Client)
	}
	for _, m := range c.members {
		m.Cluster = strings.Join(all, ",")
		if err := m.start(); err != nil {
			return err
		}
	}
	var err error
	if c.client, err = clientv3.New(clientv3.Config{Endpoints: urls}); err != nil {
		return fmt.Errorf("make a client of etcd: %w", err)
	}
	return until(ctx, "etcd serves", func() bool {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		list, err := c.client.MemberList(limited)
		if err != nil {
			return false
		}
		for _, listed := range list.Members {
			for _, m := range c.members {
				if m.Name == listed.Name {
					m.id = strconv.FormatUint(listed.ID, 16)
				}
			}
		}
		return true
	})
}

// startReplica starts a replica with the credentials of the first.
func (c *cluster) startReplica(ctx context.Context, i int, cfg Config) error {
	r := &replica{name: "r" + strconv.Itoa(i)}
	r.dir = filepath.Join(cfg.Dir, r.name)
	var servers []string
	for _, m := range c.members {
		l, err := newLink(strings.TrimPrefix(m.Client, "http://"))
		if err != nil {
			return err
		}
		r.etcd, servers = append(r.etcd, l), append(servers, "http://"+l.address())
	}
	data := filepath.Join(r.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return fmt.Errorf("make the directory of a replica: %w", err)
	}
	if i > 0 {
		if err := copyKeys(filepath.Join(data, "pki"), c.replicas[0].server.PKI()); err != nil {
			return fmt.Errorf("copy the credentials of the first replica: %w", err)
		}
	}
	flags := []string{
		"--etcd-servers", strings.Join(servers, ","), "--etcd-compaction-interval", compactEvery.String(),
		"--log-level", "info", "--bootstrap", "server", // it makes no config maps: the record knows of every one
	}
	if cfg.Election > 0 {
		flags = append(flags, "--etcd-healthcheck-timeout", cfg.Election.String(), "--etcd-readycheck-timeout",
			cfg.Election.String())
	}
	var err error
	r.server, err = program.New(program.Config{Path: cfg.Program, Dir: r.dir, Flags: flags})
	if err != nil {
		return fmt.Errorf("describe a replica: %w", err)
	}
	c.replicas = append(c.replicas, r)
	if err := r.server.Start(ctx); err != nil {
		return fmt.Errorf("start the replica %s: %w: %s", r.name, err, r.server.Log(2<<10))
	}
	r.clients, err = newLink(r.server.Host())
	return err
}

// copyKeys copies the authority of one replica, and the administrator, to the next. That one makes a
// certificate of its own.
func copyKeys(to, from string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"ca.crt", "ca.key", "sa.key", "admin.crt", "admin.key"} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), raw, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// close ends all processes and links.
func (c *cluster) close() error {
	var errs []error
	for _, r := range c.replicas {
		errs = append(errs, r.server.Close())
		if r.clients != nil {
			r.clients.close()
		}
		for _, l := range r.etcd {
			l.close()
		}
	}
	if c.client != nil {
		if err := c.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
	}
	for _, m := range c.members {
		errs = append(errs, m.kill())
		if m.log != nil {
			errs = append(errs, m.log.Close())
		}
		m.peers.close()
	}
	return errors.Join(errs...)
}

// leader returns the member that leads, or the first one if that is not known for now.
func (c *cluster) leader(ctx context.Context) *member {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, m := range c.members {
		status, err := c.client.Status(ctx, m.Client)
		if err != nil {
			continue
		}
		for _, other := range c.members {
			if other.id == strconv.FormatUint(status.Leader, 16) {
				return other
			}
		}
	}
	return c.members[0]
}

// isolate cuts a member off from the others, and not from its clients.
func (c *cluster) isolate(m *member) {
	m.peers.cut()
	for _, other := range c.members {
		if other != m {
			other.peers.cutFrom(m.id)
		}
	}
}

// moveLeader has a member lead instead of another one, if both answer.
func (c *cluster) moveLeader(ctx context.Context, from, to *member) error {
	id, err := strconv.ParseUint(to.id, 16, 64)
	if err != nil {
		return fmt.Errorf("the id of the member %s: %w", to.Name, err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{from.Client}}) // the leader has to be asked
	if err != nil {
		return fmt.Errorf("make a client of the member %s: %w", from.Name, err)
	}
	_, _ = client.MoveLeader(ctx, id) // one of them may not serve
	return client.Close()
}

// restoreStorage ends what was done to links of etcd.
func (c *cluster) restoreStorage() {
	for _, m := range c.members {
		m.peers.restore()
	}
	for _, r := range c.replicas {
		for _, l := range r.etcd {
			l.restore()
		}
	}
}
