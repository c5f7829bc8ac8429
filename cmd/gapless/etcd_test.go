package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// etcdOf returns what flags of etcd configure.
func etcdOf(args ...string) (gapless.Etcd, error) {
	var f etcdFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(flags)
	if err := flags.Parse(args); err != nil {
		return gapless.Etcd{}, err
	}
	f.compacts = flags.Changed("etcd-compaction-interval")
	return f.config()
}

func TestFlagsOfEtcdAreKubeAPIServers(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want gapless.Etcd
	}{
		"none": {nil, gapless.Etcd{}},
		"all": {
			[]string{
				"--etcd-servers=https://a:1,https://b:2", "--etcd-cafile=ca", "--etcd-certfile=crt", "--etcd-keyfile=key",
				"--etcd-prefix=/p", "--etcd-healthcheck-timeout=3s", "--etcd-readycheck-timeout=4s",
				"--etcd-compaction-interval=1m", "--storage-media-type=application/vnd.kubernetes.protobuf",
			},
			gapless.Etcd{
				Servers: []string{"https://a:1", "https://b:2"}, CAFile: "ca", CertFile: "crt", KeyFile: "key", Prefix: "/p",
				HealthcheckTimeout: 3 * time.Second, ReadycheckTimeout: 4 * time.Second, CompactionInterval: time.Minute,
			},
		},
		"no compaction": {
			[]string{"--etcd-servers=http://a:1", "--etcd-compaction-interval=0"},
			gapless.Etcd{Servers: []string{"http://a:1"}, CompactionInterval: gapless.Forever},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := etcdOf(c.args...)
			if err != nil {
				t.Fatalf("read the flags: %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestFlagsOfEtcdWithoutEffectAreRefused(t *testing.T) {
	for _, flag := range []string{
		"--etcd-servers-overrides=/events#http://a:1", "--etcd-count-metric-poll-period=1m", "--etcd-db-metric-poll-interval=30s",
		"--lease-reuse-duration-seconds=60", "--storage-media-type=application/json", "--etcd-compaction-interval=-1s",
	} {
		if got, err := etcdOf("--etcd-servers=http://a:1", flag); err == nil {
			t.Errorf("%s is taken: %+v", flag, got)
		}
	}
}
