package etcdstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/revlog/disk/disktest"
)

var powerCuts = flag.Int("power-cuts", 40, "how often the power of a replica's machine fails in its test")

// TestAPowerFailureOfAReplicaTakesNothingFromItsReaders: its log may not be on disk yet when a write is answered. The
// power fails in any call of its disk while its writer writes, another one writes to etcd, its history is compacted,
// and etcd is too, as far as the replica has said that it has everything on disk. A reader that follows over all of
// it gets every change once and in order, and no 410; nothing that was shown is out of reach afterwards.
func TestAPowerFailureOfAReplicaTakesNothingFromItsReaders(t *testing.T) {
	cuts, seed := *powerCuts, *seedFlag
	if testing.Short() {
		cuts = min(cuts, 8)
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", seed)
	m := &machine{
		world: world{T: t, random: rand.New(rand.NewPCG(seed, 0)), client: connect(t, startEtcd(t).URL()), prefix: "/registry/"},
	}
	m.disk = disktest.New(rand.New(rand.NewPCG(seed, 1)))
	m.record()
	for range cuts {
		m.live(true)
		m.disk = m.disk.PowerLoss()
	}
	m.live(false)
	m.judge()
	t.Logf("after %d of %d power failures the log lacked something that had been shown", m.lacked, cuts)
	if m.lacked == 0 {
		t.Error("no power failure took anything from the log: it is not shown that readers do not notice")
	}
}

// machine is one on which a replica runs, with a reader that outlives it.
type machine struct {
	world

	disk   *disktest.Disk
	writes int
	lacked int // power failures after which the log lacked something that had been shown
	first  int64

	mu    sync.Mutex
	shown int64 // the newest revision that anybody has seen
	read  []store.Change
	until int64 // the reader has everything up to here
}

func (m *machine) shows(rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown = max(m.shown, rev)
}

// live runs the replica over what is on disk, until the power fails if it is to.
func (m *machine) live(fails bool) {
	m.Helper()
	ctx, cancel := context.WithCancel(within(m.T))
	defer cancel()
	if fails {
		at := 1 + m.random.IntN(400)
		m.disk.SetFault(func(op disktest.Op) error {
			if op.Call < at {
				return nil
			}
			cancel() // nobody waits for this machine any more
			return disktest.ErrCrashed
		})
	}
	s, err := etcd.Open(ctx, etcd.Options{
		Cluster: etcd.Cluster{Servers: m.client.Endpoints()}, Prefix: m.prefix, Layout: plain(m.prefix),
		FS: m.disk, SegmentBytes: 4 << 10,
	})
	if err != nil {
		if !m.disk.Crashed() {
			m.Fatalf("open the store after a power failure: %v", err)
		}
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		if err := s.Close(); err != nil && !m.disk.Crashed() {
			m.Errorf("close the store: %v", err)
		}
	}()
	wg.Go(func() { _ = s.Run(context.WithoutCancel(ctx)) }) // ends with Close; what it says is that the disk has failed
	if s.Stats().Reached < m.shown {
		m.lacked++
	}
	if !m.comesBack(ctx, s) {
		return
	}
	wg.Go(func() { m.follow(ctx, s) }) // ends with Close
	for i := 0; ctx.Err() == nil && i < 60; i++ {
		m.act(ctx, s)
	}
	if fails {
		m.disk.Crash()
	} else {
		m.drain(s)
	}
	for _, h := range s.Stats().Holes {
		if h.From > 0 {
			m.Errorf("the replica has missed the changes from %d to %d", h.From, h.To)
		}
	}
}

// comesBack waits until the replica is as far as it ever was, and reads from it there.
func (m *machine) comesBack(ctx context.Context, s *etcd.Store) bool {
	m.Helper()
	for {
		now, err := s.Progress(ctx)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			pause(ctx)
			continue
		case now < m.shown:
			m.Fatalf("a fresh read is at revision %d, after %d had been shown", now, m.shown)
		}
		page, err := s.Read(ctx, store.Query{Start: "pods/", End: "pods0", AtRevision: m.shown})
		if err != nil && ctx.Err() == nil {
			m.Fatalf("read at revision %d, which had been shown: %v", m.shown, err)
		}
		if m.first == 0 {
			m.first, m.until = page.Revision, page.Revision
		}
		m.shown = max(m.shown, page.Revision)
		return err == nil
	}
}

// act does one random thing.
func (m *machine) act(ctx context.Context, s *etcd.Store) {
	m.Helper()
	m.writes++
	key, value := fmt.Sprintf("pods/%d", m.random.IntN(6)), fmt.Sprint(m.writes, strings.Repeat(" ", m.random.IntN(300)))
	var err error
	switch n := m.random.IntN(20); {
	case n < 9:
		var done store.Committed
		done, err = s.Commit(ctx, store.Txn{Key: fmt.Sprint("pods/own-", m.writes), Value: []byte(value)})
		m.shows(done.Revision)
	case n < 14:
		_, err = m.client.Put(ctx, m.prefix+key, string(mark)+value)
	case n < 16:
		_, err = m.client.Delete(ctx, m.prefix+key)
	case n < 17: // nothing that the replica records: only etcd's revision moves
		_, err = m.client.Put(ctx, m.prefix+"ranges/a", value)
	case n < 18:
		_, err = s.Keep(ctx)
	case n < 19 && s.Kept() > 0:
		upTo := s.Kept()
		m.seen.wait(m.T, upTo)
		if _, err = m.client.Compact(ctx, upTo); errors.Is(err, rpctypes.ErrCompacted) {
			err = nil
		}
	default:
		m.mu.Lock()
		upTo := m.until
		m.mu.Unlock()
		_, err = s.Compact(ctx, store.Compaction{UpTo: upTo})
	}
	if err != nil && ctx.Err() == nil && !m.disk.Crashed() {
		m.Fatalf("work while the power is there: %v", err)
	}
}

// follow reads on where the reader was.
func (m *machine) follow(ctx context.Context, s *etcd.Store) {
	ctx = context.WithoutCancel(ctx)
	m.mu.Lock()
	after := m.until
	m.mu.Unlock()
	feed, err := s.Changes(ctx, store.From{After: after})
	if err != nil {
		if !errors.Is(err, store.ErrClosed) {
			m.Errorf("go on after revision %d: %v", after, err)
		}
		return
	}
	defer func() { _ = feed.Close() }() // it holds nothing
	for {
		batch, err := feed.Next(ctx)
		if err != nil {
			if !errors.Is(err, store.ErrClosed) && !m.disk.Crashed() {
				m.Errorf("read on after revision %d: %v", after, err)
			}
			return
		}
		m.mu.Lock()
		m.read = append(m.read, batch.Changes...)
		m.until = max(m.until, batch.Through)
		m.shown = max(m.shown, batch.Through)
		m.mu.Unlock()
	}
}

// drain waits until the reader has everything.
func (m *machine) drain(s *etcd.Store) {
	m.Helper()
	ctx, rev := within(m.T), m.fence()
	reaches(ctx, m.T, s, rev)
	for ctx.Err() == nil {
		m.mu.Lock()
		until := m.until
		m.mu.Unlock()
		if until >= rev {
			return
		}
		pause(ctx)
	}
	m.Fatalf("the reader has not reached revision %d", rev)
}

// judge compares what the reader has with what etcd did.
func (m *machine) judge() {
	m.Helper()
	var want []string
	m.seen.mu.Lock()
	defer m.seen.mu.Unlock()
	for _, e := range m.seen.changes {
		key, known := plain(m.prefix).StoreKey(string(e.Kv.Key))
		if known && e.Kv.ModRevision > m.first {
			value := strings.TrimPrefix(string(e.Kv.Value), string(mark))
			want = append(want, fmt.Sprint(e.Kv.ModRevision, key, e.Type == clientv3.EventTypeDelete, value))
		}
	}
	for i, c := range m.read {
		got := fmt.Sprint(c.Revision, c.Key, c.Deleted, string(c.Value))
		if i >= len(want) || got != want[i] {
			m.Fatalf("change %d of the reader is %q, and not the first of %q", i, got, want[min(i, len(want)):])
		}
	}
	if len(m.read) != len(want) {
		m.Errorf("the reader has %d changes of %d", len(m.read), len(want))
	}
}
