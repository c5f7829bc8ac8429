package status_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errUsage = errors.New("usage")

// run runs the command against a server.
func run(t *testing.T, answers http.Handler, args ...string) (string, error) {
	t.Helper()
	server := httptest.NewServer(answers)
	defer server.Close()
	cmd := status.Program{
		Usage: func(err error) error { return errors.Join(errUsage, err) },
		Connect: func(*cobra.Command) func() (*rest.Config, error) {
			return func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil }
		},
	}.Command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// answers answers one path with a value, the others with 404 or, forbidden, with 403.
type answers struct {
	path      string
	value     any
	forbidden bool
}

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == a.path {
		_ = json.NewEncoder(w).Encode(a.value) // the client sees it
		return
	}
	if a.forbidden {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.WriteHeader(http.StatusNotFound)
}

// ofReplica is the status of a replica that lags, of two members of which one is away.
func ofReplica() gapless.ReplicaStatus {
	const hours = 3 * time.Hour
	now := time.Now()
	own := gapless.ReplicaMember{
		ID: "aa", URL: "https://10.0.0.1:6443", Version: "v1", Started: now.Add(-hours), ResourceVersion: 70,
	}
	return gapless.ReplicaStatus{
		ReplicaMember: own, Away: "it lags", AgeSeconds: 4, OldestTime: now.Add(-hours), HistoryBytes: 2_000_000,
		Floors: []gapless.ReplicaFloor{{Resource: "pods", Oldest: 12, OldestTime: now.Add(-hours), Reason: "age"}},
		Holes:  []gapless.ReplicaHole{{After: 20, Before: 30}},
		Unreadable: []gapless.ReplicaUnreadable{{
			Resource: "pods", Namespace: "default", Name: "lost", Why: `"pods/default/lost" as of revision 60 cannot be read`,
		}},
		UnreadableCount: 3,
		Etcd: gapless.ReplicaEtcd{
			Cluster: "cdf818194e3a8c32", ResourceVersion: 90, Compacted: 50, Seen: now, Quorum: true,
			Members: []gapless.ReplicaEtcdMember{
				{
					Endpoint: "http://10.0.0.1:2379", ID: "8e9e", Version: "3.7.3", Role: "leader", Alarms: []string{"NOSPACE"},
					DBBytes: 4096, InUseBytes: 1024, QuotaBytes: 2_147_483_648,
				},
				{Endpoint: "http://10.0.0.2:2379", Problem: "connection refused"},
			},
			Problems: []string{"unreachable: http://10.0.0.2:2379: connection refused"},
		},
		Replicas: []gapless.ReplicaMember{own, {
			ID: "bb", URL: "https://10.0.0.2:6443", Version: "v1", Started: now.Add(-hours), ResourceVersion: 88,
		}},
		Leader: "bb", ControllerManager: "m1_uid",
	}
}

func TestTheStatusOfAReplicaNamesWhatIsWrong(t *testing.T) {
	const want = `replica          aa at https://10.0.0.1:6443, gapless v1, up 3h
resourceVersion  70, and etcd has 90
problem          it lags
history          the last 3h, 2.0MB
hole             between resourceVersions 20 and 30 only the difference is known
controllers      left to kube-controller-manager m1_uid
unreadable       "pods/default/lost" as of revision 60 cannot be read
unreadable       and 2 more
etcd             cluster cdf818194e3a8c32, with a quorum, compacted to 50, seen 0s ago
problem          unreachable: http://10.0.0.2:2379: connection refused

MEMBER                ID    VERSION  ROLE    SIZE   IN-USE  QUOTA  ALARMS
http://10.0.0.1:2379  8e9e  3.7.3    leader  4.1kB  1.0kB   2.1GB  NOSPACE
http://10.0.0.2:2379  -     -        away    -      -       -      -

REPLICA  URL                    VERSION  RESOURCEVERSION  UP  ROLE
aa       https://10.0.0.1:6443  v1       70               3h  
bb       https://10.0.0.2:6443  v1       88               3h  leader

RESOURCE  OLDEST  SINCE  REMOVED-BY
pods      12      3h     age
`
	got, err := run(t, answers{path: gapless.ReplicaStatusPath, value: ofReplica()})
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTheStatusOfAReplicaHasEachCluster: with the resources in it.
func TestTheStatusOfAReplicaHasEachCluster(t *testing.T) {
	of, events := ofReplica(), ofReplica()
	events.Away, events.Etcd.Cluster, events.Leader = "the etcd of Events is away", "ee", ""
	of.Overrides = []gapless.ReplicaOverride{{Resources: []string{"events", "leases.coordination.k8s.io"}, ReplicaStatus: events}}
	got, err := run(t, answers{path: gapless.ReplicaStatusPath, value: of})
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	_, own, found := strings.Cut(got, "\nIN AN ETCD CLUSTER OF THEIR OWN: events, leases.coordination.k8s.io\n")
	if !found {
		t.Fatalf("there is no cluster of Events:\n%s", got)
	}
	for _, want := range []string{"the etcd of Events is away", "cluster ee, with a quorum", "MEMBER", "REPLICA"} {
		if !strings.Contains(own, want) {
			t.Errorf("the cluster of Events has no %q:\n%s", want, own)
		}
	}
}

func TestTheStatusOfAReplicaSaysHowOldItIsWithoutEtcd(t *testing.T) {
	of := ofReplica()
	of.Etcd.ResourceVersion, of.Etcd.Quorum, of.ReplicasUnknown, of.Replicas = 0, false, "no answer", nil
	got, err := run(t, answers{path: gapless.ReplicaStatusPath, value: of})
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	for _, want := range []string{"70, not older than 4 s", "WITHOUT A QUORUM", "unknown: no answer"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q:\n%s", want, got)
		}
	}
}

func TestTheStatusInJSONIsTheServersAnswer(t *testing.T) {
	got, err := run(t, answers{path: gapless.ReplicaStatusPath, value: ofReplica(), forbidden: true}, "-o", "json")
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	var status gapless.ReplicaStatus
	if err := json.Unmarshal([]byte(got), &status); err != nil {
		t.Fatalf("read the output: %v", err)
	}
	if status.Leader != "bb" || status.ResourceVersion != 70 || len(status.Etcd.Members) != 2 {
		t.Errorf("the output is %s", got)
	}
}

func TestARelayIsAskedForItsOwnStatusFirst(t *testing.T) {
	got, err := run(t, answers{path: gapless.RelayStatusPath, value: gapless.RelayStatus{Upstream: "https://up"}})
	if err != nil || !strings.HasPrefix(got, "mirror of https://up\n") {
		t.Errorf("gapless status: %v\n%s", err, got)
	}
}

func TestWhatHasNoStatusIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		at   answers
		args []string
		want string
	}{
		"another server": {answers{}, nil, "neither a relay nor a replica"},
		"no permission":  {answers{forbidden: true}, nil, "ask the server for its status"},
		"another form":   {answers{}, []string{"-o", "yaml"}, "want json"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, c.at, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("gapless status: %v, want %q", err, c.want)
			}
			if usage := errors.Is(err, errUsage); usage != (c.args != nil) {
				t.Errorf("it is an error of the command line: %v", usage)
			}
		})
	}
}
