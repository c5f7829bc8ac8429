package migrate

import (
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
	first     string   // the first key of an object; "" if there is none
	count     int64
	marks     []string  // keys in etcd, in order, with markEvery keys from each to the next
	at        time.Time // of the revision

	mu   sync.Mutex
	ends map[clientv3.LeaseID]time.Time // when leases do
}

func (m *mover) cluster() *cluster {
	prefix := "/" + strings.Trim(m.Prefix, "/") + "/"
	return &cluster{mover: m, prefix: prefix, ends: map[clientv3.LeaseID]time.Time{}}
}

const (
	// scanKeys is how many keys, without values, are read at once.
	scanKeys = 20_000
	// markEvery is after how many keys one is noted.
	markEvery = 64
)

// scan finds out which resources have objects now. other gets the keys that are of none, or are excluded, as etcd
// has them.
func (c *cluster) scan(ctx context.Context, other func(key string) error) error {
	c.rev, c.count, c.first, c.resources, c.marks, c.at = 0, 0, "", nil, nil, time.Now()
	found, seen := map[string]bool{}, 0
	from, end := c.prefix, clientv3.GetPrefixRangeEnd(c.prefix)
	for {
		resp, err := c.get(ctx, from, end, clientv3.WithLimit(scanKeys), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			if seen++; seen%markEvery == 0 {
				c.marks = append(c.marks, string(kv.Key))
			}
			key, known := c.storeKey(kv.Key)
			if !known {
				if err := other(string(kv.Key)); err != nil {
					return err
				}
				continue
			}
			if c.count++; c.count == 1 {
				c.first = string(kv.Key)
			}
			found[store.ResourceOf(key)] = true
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
	return nil
}

// storeKey returns the key in the store of a key in etcd, if it is of an object that is moved.
func (c *cluster) storeKey(at []byte) (key string, moved bool) {
	key, known := c.layout.StoreKey(string(at))
	return key, known && !c.isExcluded(string(at))
}

// isExcluded reports whether Options.Without names a key.
func (c *cluster) isExcluded(at string) bool {
	rest := strings.TrimPrefix(at, c.prefix)
	return slices.ContainsFunc(c.Without, func(start string) bool { return strings.HasPrefix(rest, start) })
}

// remade are the beginnings of the keys under which kube-apiserver has what it makes again: which addresses and ports are
// given out, and which servers there are (kubernetes pkg/registry/core/service/ipallocator, pkg/controlplane/reconcilers).
var remade = []string{"ranges/", "masterleases/", "peerserverleases/"} //nolint:gochecknoglobals // a constant

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
	// allows, because etcd counts keys. The largest values may follow the smallest: pageLimit bounds the memory
	// then, to 96 MiB of values of 1.5 MiB.
	pageBytes            = 2 << 20
	leastKeys, pageLimit = 16, markEvery
)

// span is a range of keys in etcd.
type span struct{ from, end string }

// spans returns the parts of a range, each with markEvery keys at most. For each page etcd visits all keys up to the
// end of the range, to count them (etcd server/storage/mvcc treeIndex.Revisions): of a large one that takes longer
// than to read the page.
func (c *cluster) spans(of span) []span {
	first, _ := slices.BinarySearch(c.marks, of.from)
	last, _ := slices.BinarySearch(c.marks, of.end)
	var parts []span
	for _, mark := range c.marks[first:last] {
		parts = append(parts, span{of.from, mark})
		of.from = mark
	}
	return append(parts, of)
}

// pages returns the objects of a resource; "": all.
func (c *cluster) pages(ctx context.Context, resource string) pages {
	resources := c.resources
	if resource != "" {
		resources = []string{resource}
	}
	return func(yield func([]object, error) bool) {
		for _, resource := range resources {
			from, err := c.layout.Key(resource + "/")
			if err != nil {
				yield(nil, err)
				return
			}
			limit := int64(leastKeys)
			for _, s := range c.spans(span{from, clientv3.GetPrefixRangeEnd(from)}) {
				for more := true; more; {
					resp, err := c.get(ctx, s.from, s.end, clientv3.WithLimit(limit))
					if err != nil {
						yield(nil, err)
						return
					}
					page := converted(resp.Kvs, func(kv *mvccpb.KeyValue) object { return c.object(ctx, kv) })
					page = slices.DeleteFunc(page, func(o object) bool { return o.key == "" })
					if !yield(page, cmp.Or(ctx.Err(), failed(page))) {
						return
					}
					if n := int64(len(resp.Kvs)); n > 0 {
						s.from = string(resp.Kvs[n-1].Key) + "\x00"
						limit = min(max(n*pageBytes/sizeOf(resp.Kvs), leastKeys), 4*limit, pageLimit)
					}
					more = resp.More
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

// object reads a value as servers do. Its key is "" for what is none, or is excluded. When it was written is not
// known, but for what expires: the others get the time of the cluster's revision.
func (c *cluster) object(ctx context.Context, kv *mvccpb.KeyValue) object {
	key, moved := c.storeKey(kv.Key)
	if !moved {
		return object{}
	}
	o := object{key: key, mod: kv.ModRevision, create: kv.CreateRevision, written: c.at}
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
		return time.Time{}, failure{fmt.Errorf("read a lease from etcd: %w", err)}
	}
	at = time.Now().Add(time.Duration(max(resp.TTL, 0)) * time.Second) // -1: it has ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[id] = at
	return at, nil
}

// leavesOut reports whether a key that scan's other has got is left out: kube-apiserver makes it again, or
// Options.Without names it.
func (c *cluster) leavesOut(key string) bool {
	return c.isExcluded(key) ||
		slices.ContainsFunc(remade, func(start string) bool { return strings.HasPrefix(key, c.prefix+start) })
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
				key, moved := c.storeKey(e.Kv.Key)
				if moved && (e.Type == clientv3.EventTypePut || store.ResourceOf(key) != "events") {
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
