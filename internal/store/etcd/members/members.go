// Package members lets the replicas over one etcd cluster know each other: who is alive and how far
// each has mirrored, which one does the background work, and up to where etcd may be compacted.
//
// A [Members] is one replica's part in it. Its Run keeps the replica registered, under a lease of
// etcd; List returns all that are. Lead runs work while this replica, and no other, is the leader. A
// [Compactor] compacts etcd by the rules of kube-apiserver's, and waits for replicas that lag. A
// [Report] is what is wrong with the cluster, by name.
//
// Everything is in keys of gapless's own, which [Prefix] names, besides the key of the compactors,
// which kube-apiserver shares. A user of etcd's own access control needs to read and write both, and
// the keys of the objects.
//
// leader.go has why no two lead at once, and why it does no harm if they do; compact.go what happens
// where kube-apiserver compacts too.
package members

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// root is the first part of the keys that are gapless's own.
const root = "/gapless/"

// Defaults of Options.
const (
	DefaultTTL         = 10 * time.Second
	DefaultReportEvery = 5 * time.Second
)

// Prefix returns the prefix of the keys of the replicas that serve the objects below storage, the
// value of --etcd-prefix: "/gapless/registry/" for "/registry". It fails where the keys of objects and of
// replicas could be the same.
func Prefix(storage string) (string, error) {
	name := strings.Trim(storage, "/")
	if name == "" || strings.HasPrefix("/"+name+"/", root) {
		return "", fmt.Errorf("the etcd prefix %q shares keys with %s, where replicas register: choose another", storage, root)
	}
	return root + url.PathEscape(name) + "/", nil
}

// Replica is what a replica says about itself.
type Replica struct {
	ID      string    `json:"id"`      // the same over restarts
	URL     string    `json:"url"`     // where it serves
	Version string    `json:"version"` // of gapless
	Started time.Time `json:"started"` // by its own clock
	// Revision is a revision of etcd that its log has reached, on disk, a few seconds ago; 0: none yet.
	Revision int64 `json:"revision"`
}

// record is a Replica as it is in etcd.
type record struct {
	Replica
	Process string `json:"process"` // differs from one process to the next
}

// Options configure a Members.
type Options struct {
	Client *clientv3.Client
	// Prefix is that of the function Prefix.
	Prefix string
	// Replica describes this one; Started and Revision are filled in.
	Replica Replica
	// Reached returns the revision that the replica's log has reached, on disk: what came up to it may be compacted
	// in etcd, and is not there to be read again; 0: none yet. It does not block.
	Reached func() int64
	// CatchUp lets the log reach what etcd has committed, on disk, and returns the revision that it has
	// reached. It is called where a compactor waits for this replica, in a quiet cluster too. nil:
	// Reached is called.
	CatchUp func(ctx context.Context) (int64, error)
	// TTL is how long the registration, and the leadership, of a replica outlives it; 0: DefaultTTL.
	// etcd takes whole seconds, and no less than about two.
	TTL time.Duration
	// ReportEvery is how often a change of Reached is reported; 0: DefaultReportEvery.
	ReportEvery time.Duration
	// CertFile is the certificate that Inspect looks at, PEM; "": none.
	CertFile string
	Logger   *slog.Logger // nil: none
}

// Members is one replica among those of a cluster. It is safe for concurrent use.
type Members struct {
	o       Options
	client  *clientv3.Client
	logger  *slog.Logger
	process string
}

// TwiceError says that another process has registered as this replica: a copy of its data directory
// is in use, or its former process was thought dead.
type TwiceError struct {
	ID  string
	URL string // of the other one
}

func (e *TwiceError) Error() string {
	return fmt.Sprintf("another process, at %s, is registered as replica %s: give each replica a data directory of its own",
		e.URL, e.ID)
}

// New returns a Members. It starts nothing and asks etcd nothing.
func New(o Options) *Members {
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.ReportEvery = cmp.Or(o.ReportEvery, DefaultReportEvery)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CatchUp == nil {
		o.CatchUp = func(context.Context) (int64, error) { return o.Reached(), nil }
	}
	o.Replica.Started = time.Now().UTC()
	return &Members{o: o, client: o.Client, logger: o.Logger, process: rand.Text()}
}

// Self returns what this replica says about itself.
func (m *Members) Self() Replica {
	r := m.o.Replica
	r.Revision = m.o.Reached()
	return r
}

func (m *Members) replicasPrefix() string { return m.o.Prefix + "replicas/" }
func (m *Members) recordKey() string      { return m.replicasPrefix() + m.o.Replica.ID }
func (m *Members) leaderKey() string      { return m.o.Prefix + "leader" }
func (m *Members) askKey() string         { return m.o.Prefix + "ask" }

// periods is how many periods a TTL has: three renewals in a row may fail before a leader stops.
const periods = 5

// period is how often lease and leadership are renewed, how long an attempt may take, and how long to
// wait before trying again what failed.
func (m *Members) period() time.Duration { return m.o.TTL / periods }

// View is who was there at one revision of etcd.
type View struct {
	Replicas []Replica // sorted by ID
	Leader   string    // the ID of the one that leads, or did until a TTL ago; "": none
	Revision int64     // of etcd: a replica with a smaller one lags
}

// List returns the replicas that are registered. It is a linearizable read of etcd.
func (m *Members) List(ctx context.Context) (View, error) {
	resp, err := m.client.Get(ctx, m.o.Prefix, clientv3.WithPrefix())
	if err != nil {
		return View{}, fmt.Errorf("read the replicas from etcd: %w", err)
	}
	view := View{Revision: resp.Header.Revision}
	for _, kv := range resp.Kvs {
		switch key := string(kv.Key); {
		case key == m.leaderKey():
			var c claim
			if err := json.Unmarshal(kv.Value, &c); err != nil {
				return View{}, fmt.Errorf("read %s from etcd: %w", key, err)
			}
			view.Leader = c.ID
		case strings.HasPrefix(key, m.replicasPrefix()):
			var r record
			if err := json.Unmarshal(kv.Value, &r); err != nil {
				return View{}, fmt.Errorf("read %s from etcd: %w", key, err)
			}
			view.Replicas = append(view.Replicas, r.Replica) // in the order of the keys: of the IDs
		}
	}
	return view, nil
}

// follow calls changed for every change of a key after a revision, until it returns false. It fails
// when the watch ends before: with ctx, without a leader, or because of a compaction.
func (m *Members) follow(ctx context.Context, key string, after int64, changed func(*clientv3.Event) bool) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range m.client.Watch(ctx, key, clientv3.WithRev(after+1)) {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch %s: %w", key, err)
		}
		for _, event := range resp.Events {
			if !changed(event) {
				return nil
			}
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return fmt.Errorf("watch %s: etcd has ended the watch", key)
}

// pause waits before something is tried again. It returns false when ctx ends before.
func (m *Members) pause(ctx context.Context) bool { return wait(ctx, m.period()) }

// wait returns false when ctx ends before the time is over.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
