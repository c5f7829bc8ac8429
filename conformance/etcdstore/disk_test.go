package etcdstore_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
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

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
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
