package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// identityVar is set in the processes that are members of a cluster.
const identityVar = "GAPLESS_TEST_ETCD_MEMBER"

// Identity is what a process needs to be a member of a cluster, which can be killed and paused.
type Identity struct {
	Name, Dir    string
	Client, Peer string // URLs where clients and the other members reach it
	ListenPeer   string // the URL where it listens for the other members; "": Peer
	Cluster      string // name=Peer of all, separated by commas
	Quota        int64  // 0: etcd's default
	// Election is for how long the others wait for a leader that is silent; 0: etcd's default, a second.
	Election time.Duration
}

// Command returns the command of a process that is the member. It is the program that TEST_ETCD names, or this one,
// whose main function, or TestMain, has to call ServeIfAsked first, and which ends with its standard input.
func (id Identity) Command(ctx context.Context) (*exec.Cmd, error) {
	if program := os.Getenv(programVar); program != "" {
		return exec.CommandContext(ctx, program, id.flags()...), nil
	}
	text, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), identityVar+"="+string(text))
	_, err = cmd.StdinPipe()
	return cmd, err
}

// flags is the command line of etcd's program for the member.
func (id Identity) flags() []string {
	flags := []string{
		"--name=" + id.Name, "--data-dir=" + id.Dir, "--initial-cluster=" + id.Cluster,
		fmt.Sprint("--quota-backend-bytes=", id.Quota),
		"--listen-client-urls=" + id.Client, "--advertise-client-urls=" + id.Client,
		"--listen-peer-urls=" + cmp.Or(id.ListenPeer, id.Peer), "--initial-advertise-peer-urls=" + id.Peer,
		"--log-level=error", "--unsafe-no-fsync",
	}
	if id.Election > 0 {
		flags = append(flags, fmt.Sprint("--election-timeout=", id.Election.Milliseconds()),
			fmt.Sprint("--heartbeat-interval=", id.Election.Milliseconds()/10))
	}
	return flags
}

// ServeIfAsked is a member of a cluster if this process was started with Command, and does not return then.
func ServeIfAsked() {
	if text := os.Getenv(identityVar); text != "" {
		panic(serve(text)) // it is to be killed
	}
}

// serve is etcd, until the process is killed or the test that started it has ended.
func serve(text string) error {
	var id Identity
	if err := json.Unmarshal([]byte(text), &id); err != nil {
		return err
	}
	var urls [3][]url.URL
	for i, text := range []string{id.Client, id.Peer, cmp.Or(id.ListenPeer, id.Peer)} {
		u, err := url.Parse(text)
		if err != nil {
			return err
		}
		urls[i] = []url.URL{*u}
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster, cfg.QuotaBackendBytes = id.Name, id.Dir, id.Cluster, id.Quota
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls[0], urls[0]
	cfg.AdvertisePeerUrls, cfg.ListenPeerUrls = urls[1], urls[2]
	if id.Election > 0 {
		cfg.ElectionMs, cfg.TickMs = uint(id.Election.Milliseconds()), uint(id.Election.Milliseconds()/10)
	}
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
