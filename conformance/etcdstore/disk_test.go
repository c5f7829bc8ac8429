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
	f.disk.mu.Lock()
	lets := f.disk.lets
	f.disk.mu.Unlock()
	if lets != nil {
		<-lets
	}
	return f.File.WriteAt(b, offset)
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
