package members_test

import (
	"encoding/json"
	"io"
	"net/url"
	"os"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

// memberVar is set in the processes that are members of etcd.
const memberVar = "GAPLESS_TEST_ETCD_MEMBER"

func TestMain(m *testing.M) {
	if text := os.Getenv(memberVar); text != "" {
		panic(serveMember(text)) // it is to be killed
	}
	if err := os.Setenv("ETCD_CLIENT_DEBUG", "fatal"); err != nil { // failures are what is tested
		panic(err)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
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
