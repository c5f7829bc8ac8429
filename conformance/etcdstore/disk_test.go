package etcdstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// hangingDisk is a file system whose writes wait while it hangs.
type hangingDisk struct {
	*disk.Memory

	syncs bool // instead, what was written is not synced

	mu   sync.Mutex
	lets chan struct{} // closed when writes go on; nil: nothing hangs
}

func (d *hangingDisk) Create(name string) (disk.File, error) {
	f, err := d.Memory.Create(name)
	return hangingFile{f, d}, err
}

func (d *hangingDisk) Open(name string) (disk.File, int64, error) {
	f, size, err := d.Memory.Open(name)
	return hangingFile{f, d}, size, err
}

// hang has writes wait until the function that it returns is called.
func (d *hangingDisk) hang() (letGo func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lets := make(chan struct{})
	d.lets = lets
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lets = nil
		close(lets)
	})
}

type hangingFile struct {
	disk.File

	disk *hangingDisk
}

func (f hangingFile) WriteAt(b []byte, offset int64) (int, error) {
	if !f.disk.syncs {
		f.disk.wait()
	}
	return f.File.WriteAt(b, offset)
}

func (f hangingFile) Sync() error {
	if f.disk.syncs {
		f.disk.wait()
	}
	return f.File.Sync()
}

func (d *hangingDisk) wait() {
	d.mu.Lock()
	lets := d.lets
	d.mu.Unlock()
	if lets != nil {
		<-lets
	}
}

// smallDisk is a file system without room for a new segment of the log while it is full.
type smallDisk struct {
	*disk.Memory

	room atomic.Int64 // segments that can still be made
}

func (d *smallDisk) Create(name string) (disk.File, error) {
	if format.IsSegmentName(name) && d.room.Add(-1) < 0 {
		return nil, fmt.Errorf("create %s: %w", name, syscall.ENOSPC)
	}
	return d.Memory.Create(name)
}

// countingKV counts the values that are read from etcd.
type countingKV struct {
	clientv3.KV

	read atomic.Int64
}

// Get implements clientv3.KV.
func (c *countingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := c.KV.Get(ctx, key, opts...)
	if err == nil {
		for _, kv := range resp.Kvs {
			if len(kv.Value) > 0 {
				c.read.Add(1)
			}
		}
	}
	return resp, err
}

// lines are what a store logs.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(text string) bool { return l.count(text) > 0 }

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// TestAWatchEndsWhileTheDiskHangs: it is opened again afterwards, and nothing is lost.
func TestAWatchEndsWhileTheDiskHangs(t *testing.T) {
	member := startEtcd(t)
	files, logged := &hangingDisk{Memory: disk.NewMemory()}, &lines{}
	o := optionsFor(member.URL())
	o.Memory, o.FS, o.Logger = false, files, slog.New(slog.NewTextHandler(logged, nil))
	s := run(t, o)
	ctx := within(t)
	if _, err := s.Commit(ctx, store.Txn{Key: "pods/a", Value: []byte("1")}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	letGo := files.hang()
	t.Cleanup(letGo)
	client := connect(t, member.URL())
	done, err := client.Put(ctx, "/registry/pods/a", string(mark)+"2")
	if err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	for s.Age() < 15*time.Second && ctx.Err() == nil { // the patience is 10 s
		pause(ctx)
	}
	letGo()
	reaches(ctx, t, s, done.Header.Revision)
	page, err := s.Read(ctx, store.Query{Start: "pods/a"})
	if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != "2" {
		t.Errorf("after the disk went on, the state is %+v, %v", page.Records, err)
	}
	for !logged.has("disk has not taken") && ctx.Err() == nil {
		pause(ctx)
	}
	if !logged.has("disk has not taken") {
		t.Error("the watch was not ended while the disk hung")
	}
}

// TestAWriteDoesNotWaitForTheReplicasDisk: etcd has it on disk, and what the replica's log loses it reads again.
func TestAWriteDoesNotWaitForTheReplicasDisk(t *testing.T) {
	member := startEtcd(t)
	files := &hangingDisk{Memory: disk.NewMemory(), syncs: true}
	o := optionsFor(member.URL())
	o.Memory, o.FS = false, files
	s := run(t, o)
	ctx := within(t)
	if _, err := s.Commit(ctx, store.Txn{Key: "pods/a", Value: []byte("1")}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	letGo := files.hang()
	t.Cleanup(letGo)
	done, err := s.Commit(ctx, store.Txn{Key: "pods/b", Value: []byte("2")})
	if err != nil {
		t.Fatalf("commit while the replica's disk does not sync: %v", err)
	}
	page, err := s.Read(ctx, store.Query{Start: "pods/b", AtRevision: done.Revision})
	if err != nil || len(page.Records) != 1 || string(page.Records[0].Value) != "2" {
		t.Errorf("a write that was acknowledged is read as %+v, %v", page.Records, err)
	}
}

// TestTheStateIsNotReadWhileTheLogHasNoRoomForIt: it is read once, and again when there is room.
func TestTheStateIsNotReadWhileTheLogHasNoRoomForIt(t *testing.T) {
	member := startEtcd(t)
	client, ctx := connect(t, member.URL()), within(t)
	const objects, batch = 1000, 100
	last := int64(0)
	for first := 0; first < objects; first += batch {
		var puts []clientv3.Op
		for i := first; i < first+batch; i++ {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("/registry/pods/%d", i), string(mark)+strings.Repeat("x", 1<<10)))
		}
		done, err := client.Txn(ctx).Then(puts...).Commit()
		if err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
		last = done.Header.Revision
	}
	files, logged := &smallDisk{Memory: disk.NewMemory()}, &lines{}
	files.room.Store(1)
	o := optionsFor(member.URL())
	o.Memory, o.FS, o.SegmentBytes, o.Logger = false, files, 64<<10, slog.New(slog.NewTextHandler(logged, nil))
	counting := &countingKV{}
	o.Admit = func(_ context.Context, client *clientv3.Client) error {
		if counting.KV == nil {
			counting.KV, client.KV = client.KV, counting
		}
		return nil
	}
	s := run(t, o)
	for logged.count("tries again") < 4 && ctx.Err() == nil {
		pause(ctx)
	}
	if read := counting.read.Load(); read < objects || read >= 2*objects {
		t.Errorf("%d values were read in four attempts, want the state of %d once", read, objects)
	}
	files.room.Store(objects)
	reaches(ctx, t, s, last)
	page, err := s.Read(ctx, store.Query{Start: "pods/", End: store.PrefixEnd("pods/")})
	if err != nil || len(page.Records) != objects {
		t.Errorf("with room again there are %d objects, %v; want %d", len(page.Records), err, objects)
	}
}
