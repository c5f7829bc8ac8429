package replicas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/migrate"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/encrypted"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// own is the prefix of gapless's own keys in etcd.
const own = "/gapless/registry/"

// TestWhatKubeAPIServerHasWrittenIsMovedIntoADirectory: but for what it makes for itself at each start.
func TestWhatKubeAPIServerHasWrittenIsMovedIntoADirectory(t *testing.T) {
	cluster := harness.StartCluster(t)
	kubectl := clientOf(t, &rest.Config{Host: cluster.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: cluster.Admin.CA, CertData: cluster.Admin.Cert, KeyData: cluster.Admin.Key,
	}})
	harness.Eventually(t, "kube-apiserver has made its FlowSchemas", func() bool {
		all, err := kubectl.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) > 5
	})
	harness.Eventually(t, "it takes a ConfigMap", func() bool {
		_, err := kubectl.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("moved", "1"), metav1.CreateOptions{})
		return err == nil
	})
	cluster.Stop()
	o := moving(filepath.Join(t.TempDir(), "data"), cluster.EtcdURL())
	o.Checked = func(p migrate.Plan) error {
		for _, want := range []string{
			"/registry/ranges/servicenodeports",
		} {
			if !slices.Contains(p.LeftOut, want) {
				t.Errorf("%s is not left out, but %q", want, p.LeftOut)
			}
		}
		for _, key := range p.LeftOut {
			if strings.HasPrefix(key, "/registry/flowschemas/") ||
				strings.HasPrefix(key, "/registry/prioritylevelconfigurations/") {
				t.Errorf("%s is left out", key)
			}
		}
		return nil
	}
	done, err := migrate.IntoDirectory(t.Context(), o)
	if err != nil {
		t.Fatalf("migrate what kube-apiserver has written: %v", err)
	}
	if done.Source != done.Target || done.Objects < 10 {
		t.Errorf("moved %+v, want one digest", done)
	}

	// What users have of the kinds that kube-apiserver makes too is moved as well.
	_, err = etcdAt(t, cluster.EtcdURL()).Put(t.Context(), "/registry/apiregistration.k8s.io/apiservices/v1.example.org",
		`{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.example.org"},`+
			`"spec":{"group":"example.org","version":"v1","groupPriorityMinimum":1,"versionPriority":1}}`)
	if err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	again, err := migrate.IntoDirectory(t.Context(), moving(filepath.Join(t.TempDir(), "data"), cluster.EtcdURL()))
	if err != nil || again.Objects != done.Objects+1 {
		t.Errorf("with an APIService of a user: %+v, %v; want one object more than %d", again, err, done.Objects)
	}
}

// TestAReplicaThatComesWhileObjectsAreCheckedIsNoticed: nothing is written, and the replica goes on.
func TestAReplicaThatComesWhileObjectsAreCheckedIsNoticed(t *testing.T) {
	url := member(t)
	client := etcdAt(t, url)
	o := moving(directoryOf(t, 10, configMapRecord(1)), url)
	o.Checked = func(migrate.Plan) error {
		text, err := json.Marshal(members.Replica{ID: "r", URL: "https://127.0.0.1:7"})
		if err != nil {
			return err
		}
		_, err = client.Put(t.Context(), own+"replicas/r", string(text))
		return err
	}
	_, err := migrate.IntoEtcd(t.Context(), o)
	if used, is := errors.AsType[*migrate.InUseError](err); !is || len(used.URLs) != 1 || used.URLs[0] != "https://127.0.0.1:7" {
		t.Errorf("the migration ends with %v, want that it names the replica", err)
	}
	if note, err := members.UnfinishedMigration(t.Context(), client, own); err != nil || note != nil {
		t.Errorf("a migration is noted: %v, %v", note, err)
	}
	if all, err := client.Get(t.Context(), "/registry/", clientv3.WithPrefix()); err != nil || len(all.Kvs) != 0 {
		t.Errorf("etcd has %v, %v; want no object", all, err)
	}
	direct := &members.Migration{ID: "x"}
	if err := direct.Begin(t.Context(), client, own); !errors.Is(err, members.ErrReplicas) {
		t.Errorf("a migration beside a replica begins with %v", err)
	}
}

// TestAReplicaThatRegistersAfterAMigrationHasBegunEnds: it has looked for a migration before, and found none.
func TestAReplicaThatRegistersAfterAMigrationHasBegunEnds(t *testing.T) {
	url := member(t)
	client := etcdAt(t, url)
	s, err := gapless.New(gapless.Config{
		DataDir: t.TempDir(), Listen: "127.0.0.1:0", Etcd: gapless.Etcd{Servers: []string{url}}, Logger: logger(t),
	})
	if err != nil {
		t.Fatalf("configure a replica: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }() // its end is what is tested
	select {
	case <-s.Ready():
	case err := <-ended:
		t.Fatalf("run a replica: %v", err)
	}
	harness.Eventually(t, "a migration begins while the replica is not registered", func() bool {
		leases, err := client.Leases(t.Context())
		if err != nil {
			t.Fatalf("list the leases: %v", err)
		}
		for _, lease := range leases.Leases {
			_, _ = client.Revoke(t.Context(), lease.ID) // the replica may have ended it
		}
		err = (&members.Migration{ID: "x"}).Begin(t.Context(), client, own)
		if err != nil && !errors.Is(err, members.ErrReplicas) {
			t.Fatalf("begin a migration: %v", err)
		}
		return err == nil
	})
	select {
	case err := <-ended:
		if _, is := errors.AsType[*members.Migration](err); !is || !strings.Contains(err.Error(), own+"migration") {
			t.Errorf("the replica ended with %v, want that it names the key", err)
		}
	case <-time.After(time.Minute):
		t.Error("the replica goes on beside a migration")
	}
	if all, err := client.Get(t.Context(), own+"replicas/", clientv3.WithPrefix()); err != nil || len(all.Kvs) != 0 {
		t.Errorf("registered are %v, %v; want none", all, err)
	}
}

// unanswered is a client whose transactions take effect, and have no answer.
type unanswered struct{ clientv3.KV }

// Txn implements clientv3.KV.
func (u unanswered) Txn(ctx context.Context) clientv3.Txn { return unansweredTxn{u.KV.Txn(ctx)} }

type unansweredTxn struct{ clientv3.Txn }

func (t unansweredTxn) If(c ...clientv3.Cmp) clientv3.Txn  { return unansweredTxn{t.Txn.If(c...)} }
func (t unansweredTxn) Then(o ...clientv3.Op) clientv3.Txn { return unansweredTxn{t.Txn.Then(o...)} }

func (t unansweredTxn) Commit() (*clientv3.TxnResponse, error) {
	_, err := t.Txn.Commit()
	return nil, errors.Join(err, errors.New("no answer"))
}

// TestAMigrationWhoseEndHasNoAnswerHasEnded: it cannot be run again.
func TestAMigrationWhoseEndHasNoAnswerHasEnded(t *testing.T) {
	client := etcdAt(t, member(t))
	m := &members.Migration{ID: "x"}
	if err := m.Begin(t.Context(), client, own); err != nil {
		t.Fatalf("begin: %v", err)
	}
	client.KV = unanswered{client.KV}
	if err := m.End(t.Context(), client); err != nil {
		t.Errorf("end without an answer: %v", err)
	}
	if note, err := members.UnfinishedMigration(t.Context(), client, own); err != nil || note != nil {
		t.Errorf("the note is %v, %v; want none", note, err)
	}
	if err := m.End(t.Context(), client); err != nil {
		t.Errorf("end what has ended, without an answer: %v", err)
	}
}

// TestExcludedObjectsAreLeftOut: by name, and it does not matter who writes them meanwhile.
func TestExcludedObjectsAreLeftOut(t *testing.T) {
	url := member(t)
	client := etcdAt(t, url)
	const damaged = "/registry/configmaps/default/damaged"
	for key, value := range map[string]string{
		damaged: "{", "/registry/configmaps/default/c00000": string(configMapRecord(0).Value),
	} {
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
	}
	o := moving(filepath.Join(t.TempDir(), "data"), url)
	o.Without = []string{"configmaps/default/dam"}
	o.Checked = func(p migrate.Plan) error {
		if p.LeftOutCount != 1 || !slices.Equal(p.LeftOut, []string{damaged}) || p.Objects != 1 {
			t.Errorf("the plan is %+v, want one object, and one that is left out", p)
		}
		_, err := client.Put(t.Context(), damaged, "{{")
		return err
	}
	if done, err := migrate.IntoDirectory(t.Context(), o); err != nil || done.Objects != 1 || done.Source != done.Target {
		t.Errorf("moved %+v, %v; want the other object", done, err)
	}
}

// TestObjectsOfEtcdGetOneTime: the log of the directory has a note of each that is older than the one before it.
func TestObjectsOfEtcdGetOneTime(t *testing.T) {
	url := member(t)
	client := etcdAt(t, url)
	const n, batch = 2000, 100
	for first := 0; first < n; first += batch {
		var puts []clientv3.Op
		for i := first; i < first+batch; i++ {
			r := configMapRecord(i)
			puts = append(puts, clientv3.OpPut("/registry/"+r.Key, string(r.Value)))
		}
		if _, err := client.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatalf("write to etcd: %v", err)
		}
	}
	o := moving(filepath.Join(t.TempDir(), "data"), url)
	if _, err := migrate.IntoDirectory(t.Context(), o); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	log, err := revlog.Open(t.Context(), revlog.Options{Dir: filepath.Join(o.Dir, "log")})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			t.Errorf("close the log: %v", err)
		}
	}()
	times, count := map[time.Time]bool{}, 0
	q := store.Query{Start: "configmaps/", End: store.PrefixEnd("configmaps/"), Limit: n}
	for more := true; more; {
		page, err := log.Read(t.Context(), q)
		if err != nil {
			t.Fatalf("read the log: %v", err)
		}
		for _, r := range page.Records {
			times[r.Time] = true
			q.Start = r.Key + "\x00"
		}
		count, more = count+len(page.Records), page.More
	}
	if count != n || len(times) != 1 {
		t.Errorf("%d objects of %d times, want %d of one", count, len(times), n)
	}
}

// TestWhatPassesTheCheckFitsIntoEtcd: encrypted, and with the conditions of its transaction.
func TestWhatPassesTheCheckFitsIntoEtcd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	text := strings.Replace(encryption, "[secrets]", "[configmaps]", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write the configuration of encryption: %v", err)
	}
	const most = 3 << 19 // etcd's default for --max-request-bytes
	var records []store.Record
	for i := range 24 {
		r := configMapRecord(i)
		r.Value = []byte(strings.Replace(string(r.Value), fmt.Sprintf(`"k":"%d"`, i),
			`"k":"`+strings.Repeat("x", most-600+25*i)+`"`, 1))
		records = append(records, r)
	}
	url := member(t)
	try := func(records []store.Record) error {
		o := moving(directoryOf(t, 100, records...), url)
		o.Encryption = encrypted.Config{File: file}
		_, err := migrate.IntoEtcd(t.Context(), o)
		return err
	}
	err := try(records)
	unmovable, is := errors.AsType[*migrate.UnmovableError](err)
	if !is || len(unmovable.Problems) == len(records) {
		t.Fatalf("all sizes: %.2000v, want that some are too large", err)
	}
	fit := slices.DeleteFunc(records, func(r store.Record) bool {
		return slices.ContainsFunc(unmovable.Problems, func(p string) bool { return strings.HasPrefix(p, r.Key+":") })
	})
	if err := try(fit); err != nil {
		t.Errorf("the %d that fit: %v", len(fit), err)
	}
}
