package members_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// leaderVar is set in the process that is a replica of its own: where it reaches etcd.
const leaderVar = "GAPLESS_TEST_LEADER"

func TestMain(m *testing.M) {
	etcd.ServeIfAsked()
	if endpoint := os.Getenv(leaderVar); endpoint != "" {
		panic(leadAlone(endpoint)) // it is to be killed
	}
	if err := os.Setenv("ETCD_CLIENT_DEBUG", "fatal"); err != nil { // failures are what is tested
		panic(err)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

// leadAlone is the replica "alone", which says when it leads, and no longer.
func leadAlone(endpoint string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	prefix, err := members.Prefix("/registry")
	if err != nil {
		return err
	}
	m := members.New(members.Options{
		Client: client, Prefix: prefix, TTL: ttl, Replica: members.Replica{ID: "alone"}, Reached: func() int64 { return 0 },
	})
	return m.Lead(context.Background(), func(ctx context.Context) error {
		fmt.Fprintln(os.Stdout, "begins")
		<-ctx.Done()
		fmt.Fprintln(os.Stdout, "ends:", context.Cause(ctx))
		return context.Cause(ctx)
	})
}
