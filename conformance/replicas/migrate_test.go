package replicas_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/migrate"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// TestAMigrationKeepsEveryObjectBothWays: into etcd and back, encrypted on both sides; clients from before get 410
// at the replica, and at the server of the new directory.
func TestAMigrationKeepsEveryObjectBothWays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(encryption), 0o600); err != nil {
		t.Fatalf("write the configuration of encryption: %v", err)
	}
	url, dir := member(t), filepath.Join(t.TempDir(), "data")
	shown, last := fillDirectory(t, dir, file)
	if len(shown) != len(moved) {
		t.Fatalf("the directory has %d of the objects, want %d", len(shown), len(moved))
	}
	o := moving(dir, url)
	o.Encryption = encrypted.Config{File: file}
	done, err := migrate.IntoEtcd(t.Context(), o)
	if err != nil {
		t.Fatalf("migrate into etcd: %v", err)
	}
	if done.Source != done.Target || done.Objects < int64(len(moved)) || done.Written != done.Objects {
		t.Errorf("moved %+v, want all objects, and one digest", done)
	}
	inEtcd := etcdAt(t, url)
	secret, err := inEtcd.Get(t.Context(), "/registry/secrets/default/moved")
	if err != nil || len(secret.Kvs) != 1 || !strings.HasPrefix(string(secret.Kvs[0].Value), "k8s:enc:secretbox:v1:k1:") {
		t.Errorf("the secret in etcd is %v, %v; want it encrypted", secret, err)
	}
	event, err := inEtcd.Get(t.Context(), "/registry/events/default/event-moved")
	if err != nil || len(event.Kvs) != 1 || event.Kvs[0].Lease == 0 {
		t.Errorf("the Event in etcd is %v, %v; want it under a lease", event, err)
	}

	replicaDir := t.TempDir()
	if err := os.Rename(filepath.Join(dir, "pki"), filepath.Join(replicaDir, "pki")); err != nil { // os.CopyFS changes modes
		t.Fatalf("move the certificates: %v", err)
	}
	r := start(t, url, replicaDir, func(cfg *gapless.Config) { cfg.EncryptionProviderConfig = file })
	at := dynamicOf(t, r.RESTConfig())
	if diff := cmp.Diff(shown, contents(t, at)); diff != "" {
		t.Errorf("-the directory's server +the replica:\n%s", diff)
	}
	if err := isExpired(t, at, last); err != nil {
		t.Errorf("at the replica, from the directory's %s: %v", last, err)
	}
	list, err := at.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list at the replica: %v", err)
	}
	if _, err := migrate.IntoDirectory(t.Context(), o); err == nil {
		t.Error("it is moved while a replica runs")
	} else if _, is := errors.AsType[*migrate.InUseError](err); !is {
		t.Errorf("while a replica runs: %v", err)
	}
	r.stop(t)

	o.Dir = filepath.Join(t.TempDir(), "back")
	done, err = migrate.IntoDirectory(t.Context(), o)
	if err != nil {
		t.Fatalf("migrate into a directory: %v", err)
	}
	if done.Source != done.Target || done.Objects < int64(len(moved)) {
		t.Errorf("moved %+v, want all objects, and one digest", done)
	}
	s := start(t, "", o.Dir, func(cfg *gapless.Config) { cfg.Etcd, cfg.EncryptionProviderConfig = gapless.Etcd{}, file })
	at = dynamicOf(t, s.RESTConfig())
	if diff := cmp.Diff(shown, contents(t, at)); diff != "" {
		t.Errorf("-the first directory's server +the second's:\n%s", diff)
	}
	if err := isExpired(t, at, list.GetResourceVersion()); err != nil {
		t.Errorf("at the server, from the replica's %s: %v", list.GetResourceVersion(), err)
	}
}

// TestAMigrationThatIsInterruptedIsNotServedAndGoesOn: what it has written stays, and is written once.
func TestAMigrationThatIsInterruptedIsNotServedAndGoesOn(t *testing.T) {
	const n = 3000
	url, dir := member(t), directoryOf(t, n+1, configMapRecords(n)...)
	ctx, cancel := context.WithCancel(t.Context())
	o := moving(dir, url)
	o.Progress = func(step migrate.Step, objects, _ int64) {
		if step == migrate.Writing && objects >= n/2 {
			cancel()
		}
	}
	if _, err := migrate.IntoEtcd(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted migration ends with %v", err)
	}
	o.Progress = nil

	s, err := gapless.New(gapless.Config{
		DataDir: t.TempDir(), Listen: "127.0.0.1:0", Etcd: gapless.Etcd{Servers: []string{url}}, Logger: logger(t),
	})
	if err != nil {
		t.Fatalf("configure a replica: %v", err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/gapless/registry/migration") {
		t.Errorf("a replica of half the objects ends with %v, want that it names the key", err)
	}
	if _, err := migrate.IntoDirectory(t.Context(), moving(filepath.Join(t.TempDir(), "back"), url)); err == nil {
		t.Error("half of the objects are moved back")
	} else if _, is := errors.AsType[*members.Migration](err); !is {
		t.Errorf("half of the objects are not moved back because %v", err)
	}
	other := moving(directoryOf(t, 10, configMapRecord(1)), url)
	if _, err := migrate.IntoEtcd(t.Context(), other); err == nil {
		t.Error("another directory is moved into the same etcd")
	} else if _, is := errors.AsType[*members.Migration](err); !is {
		t.Errorf("another directory is refused with %v", err)
	}

	done, err := migrate.IntoEtcd(t.Context(), o)
	if err != nil {
		t.Fatalf("go on: %v", err)
	}
	if done.Objects != n || done.Written == 0 || done.Written >= n || done.Source != done.Target {
		t.Errorf("moved %+v, want %d objects, some of them now", done, n)
	}
	keys, err := etcdAt(t, url).Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatalf("read etcd: %v", err)
	}
	for _, kv := range keys.Kvs {
		if kv.Version != 1 {
			t.Errorf("%s was written %d times", kv.Key, kv.Version)
		}
	}
	r := start(t, url, t.TempDir(), nil)
	list, err := r.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) < n {
		t.Errorf("the replica has %d ConfigMaps, %v; want %d", len(list.Items), err, n)
	}
	if _, err := migrate.IntoEtcd(t.Context(), o); err == nil {
		t.Error("it is moved a second time")
	}
}

// TestWhatCannotBeMovedIsNamedBeforeAnythingIsWritten: all of it, on both sides.
func TestWhatCannotBeMovedIsNamedBeforeAnythingIsWritten(t *testing.T) {
	bad := func(key, value string, at int64) store.Record {
		return store.Record{Key: key, Value: []byte(value), ModRevision: at, CreateRevision: at, Time: time.Now()}
	}
	url := member(t)
	dir := directoryOf(t, 100, configMapRecord(1), bad("gadgets/default/a", `{}`, 10), bad("configmaps/default/broken", `{`, 11),
		bad("configmaps/default/typed", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"typed"},"data":{"k":7}}`, 12),
		bad("configmaps/default/more",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"more"},"unheard":{"of":1}}`, 13),
		bad("secrets/default/s", "k8s:enc:secretbox:v1:gone:x", 14))
	_, err := migrate.IntoEtcd(t.Context(), moving(dir, url))
	unmovable, is := errors.AsType[*migrate.UnmovableError](err)
	if !is {
		t.Fatalf("the migration ends with %v", err)
	}
	for _, want := range []string{
		"gadgets/default/a", "configmaps/default/broken", "configmaps/default/typed", ".unheard", "secrets/default/s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in:\n%v", want, err)
		}
	}
	if len(unmovable.Problems) != 5 {
		t.Errorf("%d problems, want 5:\n%v", len(unmovable.Problems), err)
	}
	client := etcdAt(t, url)
	if all, err := client.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly()); err != nil || len(all.Kvs) != 0 {
		t.Errorf("etcd has %v, %v; want nothing", all, err)
	}

	for key, value := range map[string]string{
		"configmaps/default/broken": "{", "gadgets/default/a": "{}", "ranges/serviceips": "x",
	} {
		if _, err := client.Put(t.Context(), "/registry/"+key, value); err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
	}
	back := moving(filepath.Join(t.TempDir(), "back"), url)
	_, err = migrate.IntoDirectory(t.Context(), back)
	if unmovable, is = errors.AsType[*migrate.UnmovableError](err); !is || len(unmovable.Problems) != 2 {
		t.Errorf("the migration back ends with %v, want two problems", err)
	}
	if _, err := os.Stat(back.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v, want that there is none", err)
	}
	if _, err := client.Delete(t.Context(), "/registry/configmaps/default/broken"); err != nil {
		t.Fatalf("delete in etcd: %v", err)
	}
	back.Without = []string{"gadgets/"}
	back.Checked = func(p migrate.Plan) error {
		if len(p.LeftOut) != 2 {
			t.Errorf("left out are %q, want two keys", p.LeftOut)
		}
		return nil
	}
	if _, err := migrate.IntoDirectory(t.Context(), back); err != nil {
		t.Errorf("without them: %v", err)
	}
}

// TestOnlyAnEmptyTargetIsTaken: and nothing that somebody else writes meanwhile.
func TestOnlyAnEmptyTargetIsTaken(t *testing.T) {
	for name, key := range map[string]string{
		"an object": "/registry/configmaps/default/x", "another key": "/registry/ranges/serviceips",
	} {
		url := member(t)
		client := etcdAt(t, url)
		if _, err := client.Put(t.Context(), key, "x"); err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
		if _, err := migrate.IntoEtcd(t.Context(), moving(directoryOf(t, 10, configMapRecord(1)), url)); !errors.Is(err,
			migrate.ErrNotEmpty) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, key := range []string{"/registry/configmaps/default/c00001", "/registry/configmaps/default/foreign"} {
		url := member(t)
		client := etcdAt(t, url)
		o := moving(directoryOf(t, 10, configMapRecord(1)), url)
		o.Checked = func(migrate.Plan) error {
			_, err := client.Put(t.Context(), key, "{}")
			return err
		}
		object := strings.TrimPrefix(key, "/registry/")
		if _, err := migrate.IntoEtcd(t.Context(), o); err == nil || !strings.Contains(err.Error(), object) {
			t.Errorf("while somebody writes %s: %v", key, err)
		}
		if note, err := members.UnfinishedMigration(t.Context(), client, "/gapless/registry/"); err != nil || note == nil {
			t.Errorf("after that the migration is %v, %v; want that it is not finished", note, err)
		}
	}
	url := member(t)
	o := moving(directoryOf(t, 10, configMapRecord(1)), url)
	if _, err := migrate.IntoDirectory(t.Context(), o); !errors.Is(err, backup.ErrNotEmpty) {
		t.Errorf("into a directory that has objects: %v", err)
	}
}

// TestAnEventKeepsWhatIsLeftOfItsTime: one that is too old is not moved.
func TestAnEventKeepsWhatIsLeftOfItsTime(t *testing.T) {
	event := func(name string, at int64, age time.Duration) store.Record {
		return store.Record{
			Key: "events/default/" + name, ModRevision: at, CreateRevision: at, Time: time.Now().Add(-age),
			Value: fmt.Appendf(nil, `{"apiVersion":"v1","involvedObject":{},"kind":"Event","metadata":{"name":"%s",`+
				`"namespace":"default"}}`, name),
		}
	}
	url := member(t)
	o := moving(directoryOf(t, 10, event("old", 1, 2*time.Hour), event("half", 2, 30*time.Minute), event("new", 3, 0)), url)
	done, err := migrate.IntoEtcd(t.Context(), o)
	if err != nil || done.Expired != 1 || done.Objects != 2 {
		t.Fatalf("moved %+v, %v; want two Events, and one that has expired", done, err)
	}
	client := etcdAt(t, url)
	for name, want := range map[string]time.Duration{"half": 30 * time.Minute, "new": time.Hour} {
		got, err := client.Get(t.Context(), "/registry/events/default/"+name)
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("read the Event %s: %v, %v", name, got, err)
		}
		left, err := client.TimeToLive(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease))
		if err != nil {
			t.Fatalf("read a lease: %v", err)
		}
		ttl := time.Duration(left.GrantedTTL) * time.Second // the present one shrinks while the test runs
		if ttl > want+time.Minute+2*time.Second || ttl < want-5*time.Minute {
			t.Errorf("the Event %s lives for %v, want %v", name, ttl, want)
		}
	}
}

// TestObjectsOfOneRevisionOfEtcdAreMoved: in a directory each has its own.
func TestObjectsOfOneRevisionOfEtcdAreMoved(t *testing.T) {
	url := member(t)
	client := etcdAt(t, url)
	const n = 50
	var puts []clientv3.Op
	for i := range n {
		r := configMapRecord(i)
		puts = append(puts, clientv3.OpPut("/registry/"+r.Key, string(r.Value)))
	}
	if _, err := client.Txn(t.Context()).Then(puts...).Commit(); err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	o := moving(filepath.Join(t.TempDir(), "data"), url)
	done, err := migrate.IntoDirectory(t.Context(), o)
	if err != nil || done.Objects != n || done.Source != done.Target {
		t.Fatalf("moved %+v, %v", done, err)
	}
	s := start(t, "", o.Dir, func(cfg *gapless.Config) { cfg.Etcd, cfg.Bootstrap = gapless.Etcd{}, gapless.BootstrapNone })
	list, err := s.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	seen := map[string]bool{}
	for _, item := range list.Items {
		seen[item.ResourceVersion] = true
	}
	if len(list.Items) != n || len(seen) != n {
		t.Errorf("%d objects with %d resourceVersions, want %d of both", len(list.Items), len(seen), n)
	}
}

// TestAWriteWhileEtcdIsReadIsNoticed: it would be missing.
func TestAWriteWhileEtcdIsReadIsNoticed(t *testing.T) {
	url := member(t)
	client := etcdAt(t, url)
	put := func(key string) error {
		_, err := client.Put(t.Context(), key, string(configMapRecord(0).Value))
		return err
	}
	if err := put("/registry/configmaps/default/c00000"); err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	for key, changes := range map[string]bool{
		"/registry/configmaps/default/c00001": true, "/registry/masterleases/a": false, "/elsewhere": false,
	} {
		o := moving(filepath.Join(t.TempDir(), "data"), url)
		o.Checked = func(migrate.Plan) error { return put(key) }
		_, err := migrate.IntoDirectory(t.Context(), o)
		if errors.Is(err, migrate.ErrChanged) != changes || !changes && err != nil {
			t.Errorf("with a write of %s: %v", key, err)
		}
		if _, err := os.Stat(o.Dir); (err == nil) == changes {
			t.Errorf("with a write of %s, the directory: %v", key, err)
		}
	}
}

// TestClientsOfADirectoryGet410FromEtcd: whether etcd was above the directory's resourceVersions before, or not.
func TestClientsOfADirectoryGet410FromEtcd(t *testing.T) {
	for name, c := range map[string]struct{ last, before int64 }{
		"an etcd that is above": {10, 60}, "one that comes there meanwhile": {62, 60}, "one that is below": {1_000_000, 60},
	} {
		t.Run(name, func(t *testing.T) {
			url := member(t)
			client := etcdAt(t, url)
			for i := range c.before {
				if _, err := client.Put(t.Context(), "/elsewhere", fmt.Sprint(i)); err != nil {
					t.Fatalf("write to etcd: %v", err)
				}
			}
			o := moving(directoryOf(t, c.last, configMapRecords(5)...), url)
			done, err := migrate.IntoEtcd(t.Context(), o)
			if err != nil {
				t.Fatalf("migrate: %v", err)
			}
			for rev := int64(1); rev <= min(c.last, done.Revision-1); rev++ { // a kube-apiserver would ask etcd for them
				if _, err := client.Get(t.Context(), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(rev)); err == nil {
					t.Fatalf("etcd has a state at revision %d, which a client may ask for", rev)
				}
			}
			r := start(t, url, t.TempDir(), nil)
			if err := isExpired(t, dynamicOf(t, r.RESTConfig()), fmt.Sprint(c.last)); err != nil {
				t.Errorf("from %d: %v", c.last, err)
			}
		})
	}
}
