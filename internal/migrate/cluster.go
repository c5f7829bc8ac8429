package migrate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/store"
)

// cluster is what etcd has at one revision.
type cluster struct {
	*mover

	rev       int64
	prefix    string   // of all objects, with a slash at its end
	resources []string // that have objects, as pages has them
	first     []string // the first key of an object; empty if there is none
	count     int64
	// noted are the keys in which API servers note for themselves what they make again.
	noted []string

	mu   sync.Mutex
	ends map[clientv3.LeaseID]time.Time // when leases do
}

func (m *mover) cluster() *cluster {
	prefix := "/" + strings.Trim(m.Prefix, "/") + "/"
	return &cluster{mover: m, prefix: prefix, ends: map[clientv3.LeaseID]time.Time{}}
}

// scanKeys is how many keys, without values, are read at once.
const scanKeys = 5000

// scan finds out which resources have objects now. It returns the other keys, as etcd has them.
func (c *cluster) scan(ctx context.Context) (unknown []string, err error) {
	c.rev, c.count, c.first, c.resources, c.noted = 0, 0, nil, nil, nil
	found := map[string]bool{}
	from, end := c.prefix, clientv3.GetPrefixRangeEnd(c.prefix)
	for {
		resp, err := c.get(ctx, from, end, clientv3.WithLimit(scanKeys), clientv3.WithKeysOnly())
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			key, known := c.layout.StoreKey(string(kv.Key))
			switch {
			case known:
				if c.count++; c.count == 1 {
					c.first = []string{string(kv.Key)}
				}
				found[store.ResourceOf(key)] = true
			case c.isNoted(string(kv.Key)):
				c.noted = append(c.noted, string(kv.Key))
				unknown = append(unknown, string(kv.Key))
			default:
				unknown = append(unknown, string(kv.Key))
			}
		}
		if !resp.More {
			break
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
	for resource := range found {
		c.resources = append(c.resources, resource)
	}
	slices.SortFunc(c.resources, func(a, b string) int { return before(a+"/", b+"/") })
	return unknown, nil
}

// isNoted reports whether a key is of what kube-apiserver notes for itself: which addresses and ports are given
// out, and which servers there are. It makes them again (kubernetes pkg/registry/core/service/ipallocator,
// pkg/controlplane/reconcilers).
func (c *cluster) isNoted(key string) bool {
	rest := strings.TrimPrefix(key, c.prefix)
	return strings.HasPrefix(rest, "ranges/") || strings.HasPrefix(rest, "masterleases/") ||
		strings.HasPrefix(rest, "peerserverleases/")
}

// get reads a range of keys at the cluster's revision; 0: at the present one, which is the cluster's then.
func (c *cluster) get(ctx context.Context, from, end string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	limited, cancel := context.WithTimeoutCause(clientv3.WithRequireLeader(ctx), 3*contactFor, errNoContact)
	defer cancel()
	options = append(options, clientv3.WithRange(end), clientv3.WithRev(c.rev))
	resp, err := c.client.Get(limited, from, options...)
	switch {
	case isCompacted(err):
		return nil, fmt.Errorf("read etcd at revision %d, which was compacted meanwhile: stop all servers that use it, and "+
			"what compacts it: %w", c.rev, err)
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("read etcd: %w: %w", errNoContact, err)
	case err != nil:
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	if c.rev == 0 {
		c.rev = resp.Header.Revision
	}
	return resp, nil
}

func isCompacted(err error) bool { return errors.Is(err, rpctypes.ErrCompacted) }

const (
	// A page has about pageBytes: the first pages of a resource are small, and the others as large as that
	// allows, because etcd counts keys.
	pageBytes            = 2 << 20
	leastKeys, pageLimit = 16, 1024
)

// pages returns the objects of a resource; "": all.
func (c *cluster) pages(ctx context.Context, resource string) pages {
	resources := c.resources
	if resource != "" {
		resources = []string{resource}
	}
	return func(yield func([]object, error) bool) {
		for _, resource := range resources {
			from, err := c.layout.Key(resource + "/")
			end := clientv3.GetPrefixRangeEnd(from)
			for limit, more := int64(leastKeys), true; more; {
				var resp *clientv3.GetResponse
				if err == nil {
					resp, err = c.get(ctx, from, end, clientv3.WithLimit(limit))
				}
				if err != nil {
					yield(nil, err)
					return
				}
				page := converted(resp.Kvs, func(kv *mvccpb.KeyValue) object { return c.object(ctx, kv) })
				page = slices.DeleteFunc(page, func(o object) bool { return o.key == "" })
				if !yield(page, ctx.Err()) {
					return
				}
				if more = resp.More; more {
					from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
					limit = min(max(limit*pageBytes/sizeOf(resp.Kvs), leastKeys), 4*limit, pageLimit)
				}
			}
		}
	}
}

// sizeOf returns how many bytes values have, at least one.
func sizeOf(kvs []*mvccpb.KeyValue) int64 {
	size := int64(1)
	for _, kv := range kvs {
		size += int64(len(kv.Value))
	}
	return size
}

// object reads a value as servers do. Its key is "" for what is none.
func (c *cluster) object(ctx context.Context, kv *mvccpb.KeyValue) object {
	key, known := c.layout.StoreKey(string(kv.Key))
	if !known {
		return object{}
	}
	o := object{key: key, mod: kv.ModRevision, create: kv.CreateRevision, written: time.Now()}
	if o.value, o.err = c.layout.Decode(key, kv.Value); o.err == nil && kv.Lease != 0 && c.EventTTL > 0 {
		var expires time.Time
		if expires, o.err = c.expiry(ctx, clientv3.LeaseID(kv.Lease)); o.err == nil {
			o.written = expires.Add(-c.EventTTL)
		}
	}
	return o
}

// expiry returns when a lease ends.
func (c *cluster) expiry(ctx context.Context, id clientv3.LeaseID) (time.Time, error) {
	c.mu.Lock()
	at, known := c.ends[id]
	c.mu.Unlock()
	if known {
		return at, nil
	}
	resp, err := c.client.TimeToLive(ctx, id)
	if err != nil {
		return time.Time{}, fmt.Errorf("read a lease from etcd: %w", err)
	}
	at = time.Now().Add(time.Duration(max(resp.TTL, 0)) * time.Second) // -1: it has ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[id] = at
	return at, nil
}

// automanaged is in APIServices that kube-apiserver makes, for the groups that it serves itself.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// leaveOut divides keys that are none of an object that gapless has: into those that a server makes again, or that
// Options.Without names, and others.
func (c *cluster) leaveOut(ctx context.Context, unknown []string) (out []string, problems []string, err error) {
	for _, key := range unknown {
		rest := strings.TrimPrefix(key, c.prefix)
		left := c.isNoted(key) ||
			slices.ContainsFunc(c.Without, func(start string) bool { return strings.HasPrefix(rest, start) })
		if !left && strings.HasPrefix(rest, "apiregistration.k8s.io/apiservices/") {
			resp, err := c.get(ctx, key, key+"\x00")
			if err != nil {
				return nil, nil, err
			}
			left = len(resp.Kvs) == 0 || bytes.Contains(resp.Kvs[0].Value, []byte(automanaged))
		}
		if left {
			out = append(out, key)
		} else {
			problems = append(problems, fmt.Sprintf("%s is no object that gapless serves: --exclude leaves it out", key))
		}
	}
	return out, problems, nil
}

// ErrChanged says that somebody has written to etcd while its objects were read.
var ErrChanged = errors.New("it was written while the objects were read: stop all servers that use this etcd, and run " +
	"gapless migrate again")

// unchanged returns ErrChanged if an object was written after the cluster's revision.
func (c *cluster) unchanged(ctx context.Context) error {
	now, err := c.client.Get(ctx, c.prefix, clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("read etcd's revision: %w", err)
	}
	if now.Header.Revision == c.rev {
		return nil
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	watcher := clientv3.NewWatcher(c.client)
	defer func() { _ = watcher.Close() }() // its stream ends with it
	responses := watcher.Watch(ctx, c.prefix, clientv3.WithPrefix(), clientv3.WithRev(c.rev+1), clientv3.WithCreatedNotify())
	ask := time.NewTicker(100 * time.Millisecond) // as apiserver's progress requester does
	defer ask.Stop()
	for {
		select {
		case r, open := <-responses:
			if err := r.Err(); err != nil || !open {
				return fmt.Errorf("read what was written to etcd meanwhile: %w", cmp.Or(err, context.Cause(ctx), errWatchEnded))
			}
			for _, e := range r.Events {
				key, known := c.layout.StoreKey(string(e.Kv.Key))
				if known && (e.Type == clientv3.EventTypePut || store.ResourceOf(key) != "events") {
					return fmt.Errorf("%s: %w", e.Kv.Key, ErrChanged)
				}
			}
			if r.IsProgressNotify() && r.Header.Revision >= now.Header.Revision {
				return nil
			}
		case <-ask.C:
			if err := watcher.RequestProgress(ctx); err != nil {
				return fmt.Errorf("ask etcd for the progress of a watch: %w", err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errWatchEnded = errors.New("etcd ended the watch")
