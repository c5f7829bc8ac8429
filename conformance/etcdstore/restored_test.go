package etcdstore_test

import (
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

func put(key, value string) clientv3.Op {
	return clientv3.OpPut("/registry/"+key, string(mark)+value)
}

// write does operations, each at a revision of its own, and returns the last revision.
func (r *restartable) write(ops ...clientv3.Op) int64 {
	r.Helper()
	client := connect(r.T, r.member.URL())
	var rev int64
	for _, op := range ops {
		done, err := client.Do(within(r.T), op)
		if err != nil {
			r.Fatalf("write to etcd: %v", err)
		}
		switch {
		case op.IsDelete():
			rev = done.Del().Header.Revision
		default:
			rev = done.Put().Header.Revision
		}
	}
	return rev
}

// TestAnEtcdThatWasRestoredIsRefusedAtTheSameRevisions: a snapshot is restored without a higher revision, and others
// write more than what was lost before a replica comes back, which has what was lost.
func TestAnEtcdThatWasRestoredIsRefusedAtTheSameRevisions(t *testing.T) {
	for name, test := range map[string]struct {
		lost, other []clientv3.Op // as many each
		compact     bool
	}{
		"the same key": {
			lost:  []clientv3.Op{put("pods/lost", "1"), put("leases/a", "renewed at 1")},
			other: []clientv3.Op{put("pods/other", "1"), put("leases/a", "renewed at 2")},
		},
		"the same key in the same bytes": {
			lost:  []clientv3.Op{put("pods/lost", "1"), put("leases/a", "renewed")},
			other: []clientv3.Op{put("pods/other", "1"), put("leases/a", "renewed")},
		},
		"created again": {
			lost:  []clientv3.Op{put("pods/first", "1"), put("leases/a", "renewed")},
			other: []clientv3.Op{clientv3.OpDelete("/registry/leases/a"), put("leases/a", "renewed")},
		},
		"a deletion last": {
			lost:  []clientv3.Op{put("pods/lost", "1"), clientv3.OpDelete("/registry/pods/lost")},
			other: []clientv3.Op{put("pods/other", "1"), put("pods/other", "2")},
		},
		"compacted": {
			lost:    []clientv3.Op{put("leases/a", "renewed at 1")},
			other:   []clientv3.Op{put("leases/a", "renewed at 2")},
			compact: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &restartable{T: t, dir: t.TempDir()}
			r.start()
			r.put("leases/a", 5)
			r.stop()
			old := t.TempDir()
			if err := os.CopyFS(filepath.Join(old, "etcd"), os.DirFS(filepath.Join(r.dir, "etcd"))); err != nil {
				t.Fatalf("copy the directory of etcd: %v", err)
			}
			files := disk.NewMemory()
			o := optionsFor(r.start().URL())
			o.FS = files
			s := run(t, o)
			reaches(within(t), t, s, 1) // it sees each change
			reaches(within(t), t, s, r.write(test.lost...))
			s.stop(t)
			r.stop()

			r.dir = old
			o.Cluster.Servers = []string{r.start().URL()}
			rev := r.write(append(test.other, put("pods/later", "1"))...)
			if test.compact {
				if err := r.member.Compact(within(t), rev); err != nil {
					t.Fatalf("compact etcd: %v", err)
				}
			}
			o.FS = files.Copy()
			refusesHistory(t, o)
			r.stop()
		})
	}
}

// TestAnEtcdThatContinuesIsNotRefused: whatever changed last.
func TestAnEtcdThatContinuesIsNotRefused(t *testing.T) {
	r := &restartable{T: t, dir: t.TempDir()}
	files := disk.NewMemory()
	o := optionsFor(r.start().URL())
	o.FS = files
	for _, last := range [][]clientv3.Op{
		{put("pods/a", "1")},
		{put("pods/b", "1"), clientv3.OpDelete("/registry/pods/b")},
		{clientv3.OpDelete("/registry/pods/a")},
		{put("ranges/x", "1")},
		{clientv3.OpDelete("/registry/none"), clientv3.OpTxn(nil, []clientv3.Op{put("pods/c", "1"), put("pods/d", "1")}, nil)},
		{clientv3.OpDelete("/registry/pods/", clientv3.WithPrefix())},
	} {
		for _, op := range last {
			if _, err := connect(t, r.member.URL()).Do(within(t), op); err != nil {
				t.Fatalf("write to etcd: %v", err)
			}
		}
		for _, compact := range []bool{false, true} {
			s := run(t, o)
			rev := reaches(within(t), t, s, 1)
			s.stop(t)
			files = files.Copy()
			o.FS = files
			if compact {
				if err := r.member.Compact(within(t), rev); err != nil {
					t.Fatalf("compact etcd: %v", err)
				}
			}
		}
		s := run(t, o)
		reaches(within(t), t, s, 1)
		s.stop(t)
	}
	r.stop()
}
