package members_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/gapless-io/gapless/internal/store/etcd/members"
)

// memberVar is set in the processes that are members of etcd.
const memberVar = "GAPLESS_TEST_ETCD_MEMBER"

// programVar names the program that is etcd, of another version maybe; without it, it is this one.
const programVar = "TEST_ETCD"

// leaderVar is set in the process that is a replica of its own: where it reaches etcd.
const leaderVar = "GAPLESS_TEST_LEADER"

func TestMain(m *testing.M) {
	if text := os.Getenv(memberVar); text != "" {
		panic(serveMember(text)) // it is to be killed
	}
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

// identity is what a process needs to be a member of etcd.
type identity struct {
	Name, Dir, Client, Peer, Cluster string
	Quota                            int64
}

// serveMember is etcd, until the process is killed or the test that started it has ended.
func serveMember(text string) error {
	var id identity
	if err := json.Unmarshal([]byte(text), &id); err != nil {
		return err
	}
	client, err := url.Parse(id.Client)
	if err != nil {
		return err
	}
	peer, err := url.Parse(id.Peer)
	if err != nil {
		return err
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster, cfg.QuotaBackendBytes = id.Name, id.Dir, id.Cluster, id.Quota
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.LogLevel, cfg.UnsafeNoFsync = "error", true // no test pulls the plug
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer server.Close()
	ended := make(chan error, 1)
	go func() { // ends with the process
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	select {
	case err = <-server.Err():
	case err = <-ended:
	}
	return err
}
