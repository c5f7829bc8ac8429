package etcdstore_test

import (
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// gatedLayout is a layout with which a store records nothing while the gate is closed.
type gatedLayout struct {
	plain

	gate    chan struct{} // closed when it is open
	arrived chan struct{} // closed when something waits
	once    sync.Once
}

func (l *gatedLayout) StoreKey(key string) (string, bool) {
	l.once.Do(func() { close(l.arrived) })
	<-l.gate
	return l.plain.StoreKey(key)
}

// TestAReplicaThatWasAwayIsConnectedOnceItHasCaughtUp: until then it shows what there was before.
func TestAReplicaThatWasAwayIsConnectedOnceItHasCaughtUp(t *testing.T) {
	member := startEtcd(t)
	files := disk.NewMemory()
	o := optionsFor(member.URL())
	o.FS = files
	s := run(t, o)
	ctx := within(t)
	if _, err := s.Commit(ctx, store.Txn{Key: "pods/a", Value: []byte("1")}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	s.stop(t)
	client := connect(t, member.URL())
	missed, err := client.Put(ctx, "/registry/pods/a", string(mark)+"2")
	if err != nil {
		t.Fatalf("write to etcd: %v", err)
	}

	layout := &gatedLayout{plain: "/registry/", gate: make(chan struct{}), arrived: make(chan struct{})}
	open := sync.OnceFunc(func() { close(layout.gate) })
	defer open()
	o.FS, o.Layout = files.Copy(), layout
	s = run(t, o)
	select {
	case <-layout.arrived:
	case <-ctx.Done():
		t.Fatal("the store does not follow etcd")
	}
	if err := s.Connected(); err == nil {
		t.Errorf("a replica at revision %d of %d says that it is connected", s.Stats().Reached, missed.Header.Revision)
	}
	open()
	reaches(ctx, t, s, missed.Header.Revision)
	for s.Connected() != nil && ctx.Err() == nil {
		pause(ctx)
	}
	if err := s.Connected(); err != nil {
		t.Errorf("a replica that has caught up says of its connection: %v", err)
	}
	foreign, err := client.Put(ctx, "/other", "1") // moves the revision, and is not in the watch
	if err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	o.FS, o.Layout = files.Copy(), plain("/registry/")
	s.stop(t)
	s = run(t, o)
	for s.Connected() != nil && ctx.Err() == nil {
		pause(ctx)
	}
	if at := s.Stats().Reached; at < foreign.Header.Revision || s.Connected() != nil {
		t.Errorf("a replica at revision %d of %d says of its connection: %v", at, foreign.Header.Revision, s.Connected())
	}
}
