package members_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// ttl is that of the replicas here: etcd's own processes get little of a busy machine.
const ttl = 4 * time.Second

// cluster is a cluster of etcd.
type cluster struct {
	t       *testing.T
	members []*member
}

// member is a process of etcd.
type member struct {
	etcd.Identity

	t   *testing.T
	cmd *exec.Cmd // nil: it was killed
	log harness.Printed
}

// startCluster starts a cluster of n members, and ends it with the test.
func startCluster(t *testing.T, n int) *cluster { return startClusterWith(t, n, 0) }

// startClusterWith is startCluster with a quota for the database; 0: etcd's own.
func startClusterWith(t *testing.T, n int, quota int64) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var all []string
	for i := range n {
		m := &member{t: t, Identity: etcd.Identity{
			Name: fmt.Sprintf("m%d", i), Dir: t.TempDir(), Quota: quota,
			Client: "http://127.0.0.1:" + harness.FreePort(t), Peer: "http://127.0.0.1:" + harness.FreePort(t),
		}}
		c.members = append(c.members, m)
		all = append(all, m.Name+"="+m.Peer)
	}
	for _, m := range c.members {
		m.Cluster = strings.Join(all, ",")
		m.start()
		t.Cleanup(m.kill)
	}
	client := c.client()
	harness.Eventually(t, "etcd serves", func() bool {
		_, err := client.Get(limited(t), "none")
		return err == nil
	})
	return c
}

func (m *member) start() {
	m.t.Helper()
	var err error
	// Not to end with the test's context: kill waits for it.
	if m.cmd, err = m.Command(context.WithoutCancel(m.t.Context())); err != nil {
		m.t.Fatalf("describe a member of etcd: %v", err)
	}
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	if err := m.cmd.Start(); err != nil {
		m.t.Fatalf("start a member of etcd: %v", err)
	}
}

// kill kills it and waits for its end.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill() // it may have ended
	_ = m.cmd.Wait()         // its error is that it was killed
	m.cmd = nil
	if m.t.Failed() {
		m.t.Logf("end of the output of %s:\n%s", m.Name, m.log.String())
	}
}

// pause stops the process without closing its connections; resume lets it go on.
func (m *member) pause()  { m.signal(syscall.SIGSTOP) }
func (m *member) resume() { m.signal(syscall.SIGCONT) }

func (m *member) signal(s syscall.Signal) {
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Errorf("signal %s: %v", m.Name, err)
	}
}

// client returns a client of these members, or all, which is closed with the test.
func (c *cluster) client(of ...*member) *clientv3.Client {
	c.t.Helper()
	client := c.unclosed(of...)
	c.t.Cleanup(func() { closeClient(c.t, client) })
	return client
}

func (c *cluster) unclosed(of ...*member) *clientv3.Client {
	c.t.Helper()
	if len(of) == 0 {
		of = c.members
	}
	var endpoints []string
	for _, m := range of {
		endpoints = append(endpoints, m.Client)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		c.t.Fatalf("make a client of etcd: %v", err)
	}
	return client
}

func closeClient(t *testing.T, client *clientv3.Client) {
	if err := client.Close(); err != nil {
		t.Errorf("close a client of etcd: %v", err)
	}
}

// limited returns a context for one request.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// replica is a replica of gapless as far as the others know of it.
type replica struct {
	*members.Members

	id      string
	t       *testing.T
	client  *clientv3.Client
	reached atomic.Int64
	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // it is that of the replica's life
	running sync.WaitGroup
	ended   error // of Run
}

// replica starts a replica that uses these members of etcd, or all. It ends with the test.
func (c *cluster) replica(id string, of ...*member) *replica {
	c.t.Helper()
	return c.replicaWith(members.Options{Replica: members.Replica{ID: id}}, of...)
}

// replicaWith is replica with some options. Its log has reached the revision there.
func (c *cluster) replicaWith(o members.Options, of ...*member) *replica {
	c.t.Helper()
	prefix, err := members.Prefix("/registry")
	if err != nil {
		c.t.Fatalf("name the prefix: %v", err)
	}
	r := &replica{id: o.Replica.ID, t: c.t, client: c.unclosed(of...)}
	r.reached.Store(o.Replica.Revision)
	o.Client, o.Prefix, o.TTL, o.Reached = r.client, prefix, ttl, r.reached.Load
	o.Replica.URL, o.Replica.Version = "https://"+r.id+".example", "v1"
	r.Members = members.New(o)
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(c.t.Context()))
	r.running.Go(func() { r.ended = r.Run(r.ctx) })
	c.t.Cleanup(r.stop)
	return r
}

// stop ends a replica as a shutdown does. It may be called again.
func (r *replica) stop() {
	r.cancel()
	r.running.Wait()
	_ = r.client.Close() // kill may have closed it
}

// kill ends a replica as a kill does: etcd hears nothing of it any more.
func (r *replica) kill() {
	_ = r.client.Close() // a request may be under way
	r.stop()
}

// lead lets the replica lead, until it stops, and records when it does.
func (r *replica) lead(in *terms) {
	r.running.Go(func() {
		err := r.Lead(r.ctx, func(ctx context.Context) error {
			term := in.begin(r.id)
			<-ctx.Done()
			in.end(term)
			return context.Cause(ctx)
		})
		if err != nil {
			r.t.Errorf("lead as %s: %v", r.id, err)
		}
	})
}

// terms are the times for which replicas led.
type terms struct {
	mu  sync.Mutex
	all []*term
}

type term struct {
	id         string
	begin, end time.Time // end is zero while it lasts
}

func (ts *terms) begin(id string) *term {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := &term{id: id, begin: time.Now()}
	ts.all = append(ts.all, t)
	return t
}

func (ts *terms) end(t *term) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.end = time.Now()
}

// leader returns the last term, if it lasts.
func (ts *terms) leader() (term, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.all) == 0 || !ts.all[len(ts.all)-1].end.IsZero() {
		return term{}, false
	}
	return *ts.all[len(ts.all)-1], true
}

func (ts *terms) count() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.all)
}

// awaitLeader waits until a replica leads, but not one of these.
func (ts *terms) awaitLeader(t *testing.T, not ...string) term {
	t.Helper()
	var now term
	harness.Eventually(t, "a replica leads that is none of "+strings.Join(not, ", "), func() bool {
		leader, ok := ts.leader()
		for _, id := range not {
			ok = ok && leader.id != id
		}
		now = leader
		return ok
	})
	return now
}

// check fails the test if two led at once.
func (ts *terms) check(t *testing.T) {
	t.Helper()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for i, now := range ts.all {
		if now.end.IsZero() {
			now.end = time.Now() // it lasts
		}
		t.Logf("%s led from %v to %v", now.id, now.begin.Sub(ts.all[0].begin), now.end.Sub(ts.all[0].begin))
		if i > 0 {
			if before := ts.all[i-1]; now.begin.Before(before.end) {
				t.Errorf("%s began to lead before %s had ended", now.id, before.id)
			}
		}
	}
}
