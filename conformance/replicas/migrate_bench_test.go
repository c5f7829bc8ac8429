package replicas_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/migrate"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// many are the objects of BenchmarkMigrate: as many Pods as ConfigMaps, of about 1 KiB each.
const many = 100_000

// BenchmarkMigrate moves many objects into etcd, starts a replica there twice, with an empty log and with its own,
// and moves them back. It is for -benchtime 1x; the figures are seconds, and those of the processors: of this process,
// with etcd in it unless TEST_ETCD names a program.
func BenchmarkMigrate(b *testing.B) {
	for b.Loop() {
		url, dir := member(b), filepath.Join(b.TempDir(), "data")
		made, err := backup.Fill(b.Context(), backup.Header{Revision: many, Made: time.Now()}, podsAndConfigMaps(b),
			backup.RestoreOptions{Dir: dir, Bump: 1}, func(disk.FS) error { return nil })
		if err != nil || made.Objects != many {
			b.Fatalf("make a directory of %d objects: %v", made.Objects, err)
		}
		move := func(name string, do func(context.Context, migrate.Options) (migrate.Result, error), o migrate.Options) {
			end := measured(b, name)
			done, err := do(b.Context(), o)
			if err != nil || done.Objects < many || done.Source != done.Target {
				b.Fatalf("%s: moved %d objects, %v", name, done.Objects, err)
			}
			end()
		}
		move("into-etcd", migrate.IntoEtcd, moving(dir, url))
		of := b.TempDir()
		startAndEnd(b, "first-start", url, of)
		startAndEnd(b, "next-start", url, of)
		move("into-directory", migrate.IntoDirectory, moving(filepath.Join(b.TempDir(), "back"), url))
	}
}

// measured begins to measure something, of which end reports the time.
func measured(b *testing.B, name string) (end func()) {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatalf("measure the time of the processors: %v", err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began, before := time.Now(), used()
	return func() {
		b.ReportMetric(time.Since(began).Seconds(), name+"-s")
		b.ReportMetric((used() - before).Seconds(), name+"-cpu-s")
	}
}

// startAndEnd starts a replica, measures until it is ready, and ends it.
func startAndEnd(b *testing.B, name, url, dir string) {
	b.Helper()
	s, err := gapless.New(gapless.Config{DataDir: dir, Listen: "127.0.0.1:0", Etcd: gapless.Etcd{Servers: []string{url}}})
	if err != nil {
		b.Fatalf("configure a replica: %v", err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	end := measured(b, name)
	go func() { ended <- s.Run(ctx) }() // it is waited for
	select {
	case <-s.Ready():
	case err := <-ended:
		b.Fatalf("run a replica: %v", err)
	}
	end()
	cancel()
	if err := <-ended; err != nil {
		b.Fatalf("run a replica: %v", err)
	}
}

// podsAndConfigMaps are many objects in the form in which servers keep them.
func podsAndConfigMaps(b *testing.B) func(func(store.Record, error) bool) {
	b.Helper()
	forms := layout.New(gapless.DefaultEtcdPrefix, kinds.NewLive(builtin.Catalog()))
	data := strings.Repeat("0123456789abcdef", 44)
	return func(yield func(store.Record, error) bool) {
		for i := range int64(many) {
			name := fmt.Sprintf("o%06d", i/2)
			meta := fmt.Sprintf(`"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"a%d"},"name":"%s",`+
				`"namespace":"n%02d","uid":"00000000-0000-0000-0000-%012d"}`, i%97, name, i%50, i)
			key, value := fmt.Sprintf("configmaps/n%02d/%s", i%50, name), fmt.Sprintf(
				`{"apiVersion":"v1","data":{"k":"%s"},"kind":"ConfigMap",%s}`, data, meta)
			if i%2 == 1 {
				key, value = fmt.Sprintf("pods/n%02d/%s", i%50, name), fmt.Sprintf(
					`{"apiVersion":"v1","kind":"Pod",%s,"spec":{"containers":[{"args":["--listen=:8080"],"image":"example.org/app:1",`+
						`"imagePullPolicy":"IfNotPresent","name":"app","resources":{"requests":{"cpu":"100m","memory":"64Mi"}},`+
						`"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],`+
						`"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"nodeName":"node-%d","preemptionPolicy":`+
						`"PreemptLowerPriority","priority":0,"restartPolicy":"Always","schedulerName":"default-scheduler",`+
						`"securityContext":{},"terminationGracePeriodSeconds":30},"status":{"phase":"Running","qosClass":"Burstable"}}`,
					meta, i%40)
			}
			stored, err := forms.Encode(key, []byte(value), nil)
			if err != nil {
				b.Fatalf("encode %s: %v", key, err)
			}
			form, err := forms.Decode(key, stored)
			if err != nil {
				b.Fatalf("decode %s: %v", key, err)
			}
			if !yield(store.Record{Key: key, Value: form, ModRevision: i + 1, CreateRevision: i + 1, Time: time.Now()}, nil) {
				return
			}
		}
	}
}
