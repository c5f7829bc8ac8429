package campaign_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/conformance/replicas/campaign"
)

var (
	faults = flag.Int("faults", 0, "how many things fail; 0: as many as there is time for")
	lasts  = flag.Duration("for", 0, "how long things fail, at most; 0: until there were enough -faults")
	seed   = flag.Uint64("seed", 0, "repeats the choices of a run, though not its timing; 0 picks one")
	pause  = flag.Duration("pause", 150*time.Millisecond, "the mean time between two writes of one of the writers")
	// On a machine with little to spare, a leader that is silent for a second is nothing special.
	election = flag.Duration("election", 2*time.Second, "for how long members of etcd wait for a leader that is silent")
	// built is the program under test.
	built = flag.String("program", "", "path of the program; empty builds it")
)

func TestMain(m *testing.M) {
	etcd.ServeIfAsked()
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	if err := os.Setenv("ETCD_CLIENT_DEBUG", "fatal"); err != nil { // failures are what is tested
		panic(err)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	dir, err := os.MkdirTemp("", "gapless-campaign-")
	if err == nil && *built == "" && *faults+int(*lasts) > 0 {
		*built, err = harness.Build(context.Background(), dir, harness.Root(), "cmd/gapless")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir) // what is left is in the directory for temporary files
		os.Exit(code)
	}))
}

// asked skips a test unless it is said how much is to fail: it takes minutes, and a machine of its own.
func asked(t *testing.T) {
	t.Helper()
	if *faults == 0 && *lasts == 0 {
		t.Skip("neither -faults nor -for says how much is to fail: make campaign")
	}
}

// TestReplicasLoseNothingWhateverFails has 16 writers and 24 watchers, which a balancer sends to any replica.
func TestReplicasLoseNothingWhateverFails(t *testing.T) {
	asked(t)
	dir, err := os.MkdirTemp("", "gapless-campaign-") //nolint:usetesting // it is kept if the test fails, with the histories
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	report, err := campaign.Run(t.Context(), campaign.Config{
		Program: *built, Dir: dir, Faults: *faults, For: *lasts, Seed: *seed, Out: t.Output(),
		Port:    func() string { return harness.FreePort(t) },
		Writers: 16, Watchers: 24, Readers: 4, Pause: *pause, Election: *election,
	})
	t.Logf("seed %d\n%s", *seed, report)
	if err != nil {
		t.Errorf("run: %v", err)
	}
	if report.Violations > 0 || report.Undecided > 0 {
		t.Errorf("%d violations, %d undecided histories (go test -seed %d)", report.Violations, report.Undecided, *seed)
	}
	if report.Faults == 0 || report.Acknowledged == 0 || report.Events == 0 || report.Lists == 0 || report.Operations == 0 {
		t.Error("nothing was done, so nothing was tested")
	}
	if t.Failed() {
		t.Logf("data, logs and histories are in %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		t.Errorf("remove the directory: %v", err)
	}
}

// TestCheckDetectsAWriteThatWasLost deletes an object in etcd that nobody has deleted.
func TestCheckDetectsAWriteThatWasLost(t *testing.T) {
	asked(t)
	report, err := campaign.Run(t.Context(), campaign.Config{
		Program: *built, Dir: t.TempDir(), Faults: 1, Seed: *seed, Out: io.Discard,
		Port:    func() string { return harness.FreePort(t) },
		Writers: 2, Readers: 1, Pause: 50 * time.Millisecond, Election: *election,
		AfterRound: func(ctx context.Context, etcd *clientv3.Client) error {
			_, err := etcd.Delete(ctx, "/registry/configmaps/a/fence")
			return err
		},
	})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if report.Violations == 0 {
		t.Errorf("the loss of an object was not detected: %s", report)
	}
}
