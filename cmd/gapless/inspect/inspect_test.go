package inspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/cmd/gapless/inspect"
	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errUsage = errors.New("usage")

// streams are those of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// execute runs a command against a server until it ends, or ctx does.
func execute(ctx context.Context, io streams, cfg *rest.Config, args ...string) error {
	root := &cobra.Command{Use: "gapless", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(inspect.Program{
		Usage: func(err error) error { return errors.Join(errUsage, err) },
		Connect: func(*cobra.Command) func() (*rest.Config, error) {
			return func() (*rest.Config, error) { return cfg, nil }
		},
	}.Commands()...) //nolint:contextcheck // commands have the context of ExecuteContext
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// run runs a command against what answers.
func run(t *testing.T, answers http.Handler, args ...string) (string, error) {
	t.Helper()
	server := httptest.NewServer(answers)
	defer server.Close()
	var out bytes.Buffer
	err := execute(t.Context(), streams{strings.NewReader(""), &out, &out}, &rest.Config{Host: server.URL}, args...)
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

const hours = 3 * time.Hour

// ofReplica is the status of a replica that lags, of two members of which one is away.
func ofReplica() status.Replica {
	now := time.Now()
	own := status.Member{
		ID: "aa", URL: "https://10.0.0.1:6443", Version: "v1", Started: now.Add(-hours), ResourceVersion: 70,
	}
	return status.Replica{
		Member: own, Away: "it lags", AgeSeconds: 4, OldestTime: now.Add(-hours), HistoryBytes: 2_000_000,
		Floors: []status.Floor{{Resource: "pods", Oldest: 12, OldestTime: now.Add(-hours), Reason: "age"}},
		Holes:  []status.Hole{{After: 20, Before: 30}},
		Unreadable: []status.Unreadable{{
			Resource: "pods", Namespace: "default", Name: "lost", Why: `"pods/default/lost" as of revision 60 cannot be read`,
		}},
		UnreadableCount: 3,
		Etcd: status.Etcd{
			Cluster: "cdf818194e3a8c32", ResourceVersion: 90, Compacted: 50, Seen: now, Quorum: true,
			Members: []status.EtcdMember{
				{
					Endpoint: "http://10.0.0.1:2379", ID: "8e9e", Version: "3.7.3", Role: "leader", Alarms: []string{"NOSPACE"},
					DBBytes: 4096, InUseBytes: 1024, QuotaBytes: 2_147_483_648,
				},
				{Endpoint: "http://10.0.0.2:2379", Problem: "connection refused"},
			},
			Problems: []string{"unreachable: http://10.0.0.2:2379: connection refused"},
		},
		Replicas: []status.Member{own, {
			ID: "bb", URL: "https://10.0.0.2:6443", Version: "v1", Started: now.Add(-hours), ResourceVersion: 88,
		}},
		Leader: "bb", ControllerManager: "m1_uid",
	}
}

// ofState is what servers and replicas have in common, with a client that chose a name to confuse a terminal.
func ofState() *status.State {
	now := time.Now()
	jane := status.Client{
		User: "jane", UserAgent: "kubectl/v1.37 (linux)", Resource: "pods", Version: "v1", Namespace: "shop",
		LabelSelector: "app=web", FieldSelector: "status.phase=Running", Since: now.Add(-hours),
	}
	idle := status.Client{
		User: "joe", UserAgent: "evil\x1b[2Jagent", Resource: "configmaps", Version: "v1", Since: now.Add(-hours),
	}
	return &status.State{
		Resources: []status.Resource{
			{
				Resource: "configmaps", Objects: 7, Bytes: 500, HistoryBytes: 4000, ResourceVersion: 65, Oldest: 12,
				OldestTime: now.Add(-hours), LastTime: now.Add(-time.Hour), RemovedBy: "age", Watches: 1,
			},
			{Resource: "pods", Objects: 3, Bytes: 9000, ResourceVersion: 70, Oldest: 40, LastTime: now, Watches: 1},
		},
		Storage: status.Storage{
			LastWrite: now, Bytes: 12_300_000, Files: 3, Syncs: 812, SyncMeanSeconds: 0.0012, SyncMostSeconds: 0.004,
			RefusedWrites: 2, FreeBytes: 1_000_000_000, FileSystemBytes: 40_000_000_000,
		},
		Clients: status.Clients{
			Watches: []status.Watch{
				{Client: idle, Delivered: 2, Known: 20, AboveOldest: 8, ExpiresAt: now.Add(5*time.Hour + time.Minute)},
				{Client: jane, Delivered: 40, Known: 60, BehindEvents: 4, BehindSeconds: 1.5, AboveOldest: 20},
			},
			WatchCount: 5,
			Expired:    []status.Expired{{Client: jane, At: now.Add(-hours), From: 3, Known: 4, Why: "it was removed by age"}},
			Refused:    map[string]int64{"watches": 3, "in_flight": 12},
		},
	}
}

func ofServer() status.Server {
	return status.Server{
		URL: "https://10.0.0.1:6443", Version: "v1", Started: time.Now().Add(-hours), ResourceVersion: 70,
		OldestTime: time.Now().Add(-hours), HistoryBytes: 4000, State: *ofState(),
	}
}

func TestTheStatusOfAServer(t *testing.T) {
	const want = `server           https://10.0.0.1:6443, gapless v1, up 3h
resourceVersion  70
history          the last 3h, 4.0kB
storage          takes writes; the last change was 0s ago
disk             12.3MB in 3 files, 812 syncs, on average 1.2 ms, 99 % within 4 ms
disk             ONLY 1.0GB of 40.0GB are free: without any, writes are refused
disk             2 writes were refused, and 0 compactions or merges have failed
refused          12 in_flight, 3 watches

RESOURCE    OBJECTS  BYTES  HISTORY  OLDEST  SINCE  CHANGED  WATCHES  REMOVED-BY
configmaps        7   500B    4.0kB      12     3h      60m        1  age
pods              3  9.0kB       0B      40      -       0s        1

USER  AGENT          RESOURCE    NAMESPACE  SELECTOR                      OPEN  EVENTS  BEHIND   LAG  EXPIRES
joe   evil�[2Jagent  configmaps                                             3h       2       0    0s       5h
jane  kubectl/v1.37  pods        shop       app=web,status.phase=Running    3h      40       4  1.5s        -
and 3 more watches, which would get 410 later

USER  AGENT          RESOURCE  NAMESPACE  SELECTOR                      EXPIRED  FROM  WHY
jane  kubectl/v1.37  pods      shop       app=web,status.phase=Running       3h     3  it was removed by age
`
	got, err := run(t, answers{path: status.Path, value: ofServer()}, "status")
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
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

RESOURCE  OLDEST  SINCE  REMOVED-BY
pods          12     3h  age

REPLICA  URL                    VERSION  RESOURCEVERSION  UP  ROLE
aa       https://10.0.0.1:6443  v1                    70  3h
bb       https://10.0.0.2:6443  v1                    88  3h  leader

MEMBER                ID    ETCD   ROLE     SIZE  IN-USE  QUOTA  ALARMS
http://10.0.0.1:2379  8e9e  3.7.3  leader  4.1kB   1.0kB  2.1GB  NOSPACE
http://10.0.0.2:2379  -     -      away        -       -      -  -
`
	got, err := run(t, answers{path: status.Path, value: ofReplica()}, "status")
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	of := ofReplica()
	of.State = ofState()
	got, err = run(t, answers{path: status.Path, value: of}, "status", "-o", "wide")
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	for _, want := range []string{"problem          it lags", "12 in_flight", "kubectl/v1.37", "REPLICA", "ABOVE-OLDEST"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q:\n%s", want, got)
		}
	}
}

// TestTheStatusOfAReplicaHasEachCluster: with the resources in it.
func TestTheStatusOfAReplicaHasEachCluster(t *testing.T) {
	of, events := ofReplica(), ofReplica()
	of.State = ofState()
	events.Away, events.Etcd.Cluster, events.Leader = "the etcd of Events is away", "ee", ""
	of.Overrides = []status.Override{{Resources: []string{"events", "leases.coordination.k8s.io"}, Replica: events}}
	got, err := run(t, answers{path: status.Path, value: of}, "status")
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	_, own, found := strings.Cut(got, "IN AN ETCD CLUSTER OF THEIR OWN: events, leases.coordination.k8s.io\n")
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
	got, err := run(t, answers{path: status.Path, value: of}, "status")
	if err != nil {
		t.Fatalf("gapless status: %v", err)
	}
	for _, want := range []string{"70, not older than 4 s", "WITHOUT A QUORUM", "unknown: no answer"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q:\n%s", want, got)
		}
	}
}

func TestTheStatusInJSONAndYAMLIsTheServersAnswer(t *testing.T) {
	for form, want := range map[string]string{"json": `"leader":"bb"`, "yaml": "\nleader: bb\n"} {
		got, err := run(t, answers{path: status.Path, value: ofReplica(), forbidden: true}, "status", "-o", form)
		if err != nil {
			t.Fatalf("gapless status: %v", err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("-o %s has no %q:\n%s", form, want, got)
		}
	}
}

func TestARelayIsAskedForItsOwnStatusFirst(t *testing.T) {
	of := status.Relay{
		Upstream: "https://up", Away: "no route", URL: "https://10.0.0.3:8443",
		Resources: []status.RelayResource{{Resource: "pods.v1", Objects: 4, Expired: map[string]int64{"age": 2}}},
	}
	got, err := run(t, answers{path: status.RelayPath, value: of}, "status")
	if err != nil || !strings.HasPrefix(got, "mirror   of https://up, at https://10.0.0.3:8443") ||
		!strings.Contains(got, "does not answer: no route") || !strings.Contains(got, "pods.v1") {
		t.Errorf("gapless status: %v\n%s", err, got)
	}
	got, err = run(t, answers{path: status.RelayPath, value: map[string]any{"upstream": "https://up"}}, "status")
	if err != nil || got != "mirror  of https://up\n" {
		t.Errorf("of a relay that says no more: %v\n%s", err, got)
	}
}

func TestWhatHasNoStatusIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		at   answers
		args []string
		want string
	}{
		"another server": {answers{}, []string{"status"}, "neither a relay nor a replica"},
		"no permission":  {answers{forbidden: true}, []string{"status"}, "ask the server for its status"},
		"another form":   {answers{}, []string{"status", "-o", "name"}, "want one of"},
		"many watches":   {answers{}, []string{"status", "--watches", "1001"}, "want a number from 0 to 1000"},
		"no time":        {answers{}, []string{"top", "--interval", "0s"}, "want a time"},
		"top of another": {answers{}, []string{"top"}, "neither a relay nor a replica"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, c.at, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("gapless %v: %v, want %q", c.args, err, c.want)
			}
			if usage := errors.Is(err, errUsage); usage != (len(c.args) > 1) {
				t.Errorf("it is an error of the command line: %v", usage)
			}
		})
	}
}

// lines counts the lines that begin with a text, and calls a function with the second.
type lines struct {
	text   bytes.Buffer
	begin  string
	second func()
}

func (l *lines) Write(b []byte) (int, error) {
	l.text.Write(b)
	if strings.Count(l.text.String(), l.begin) == 2 {
		l.second()
	}
	return len(b), nil
}

// TestTopPrintsEachStatusWhereThereIsNoTerminal: of a server, without what only terminals know.
func TestTopPrintsEachStatusWhereThereIsNoTerminal(t *testing.T) {
	s := gaplesstest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lines{begin: "\nserver ", second: cancel}
	if err := execute(ctx, streams{strings.NewReader(""), out, io.Discard}, s.RESTConfig(), "top", "--interval",
		"10ms"); err != nil {
		t.Fatalf("gapless top: %v", err)
	}
	text := out.text.String()
	if !strings.HasPrefix(text, "# 20") || strings.Contains(text, "\x1b") || !strings.Contains(text, "\nnamespaces ") {
		t.Errorf("it prints\n%s", text)
	}
}
