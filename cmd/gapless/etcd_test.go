package main

import (
	"strings"
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
		"overrides": {
			[]string{
				"--etcd-servers=http://a:1", "--etcd-servers-overrides=/events#http://b:1;http://c:1,apps/*#http://d:1",
				"--etcd-servers-overrides=coordination.k8s.io/leases#http://b:1",
			},
			gapless.Etcd{Servers: []string{"http://a:1"}, Overrides: []gapless.EtcdOverride{
				{Resource: "events", Servers: []string{"http://b:1", "http://c:1"}},
				{Group: "apps", Resource: "*", Servers: []string{"http://d:1"}},
				{Group: "coordination.k8s.io", Resource: "leases", Servers: []string{"http://b:1"}},
			}},
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
		"--etcd-count-metric-poll-period=1m", "--etcd-db-metric-poll-interval=30s",
		"--lease-reuse-duration-seconds=60", "--storage-media-type=application/json", "--etcd-compaction-interval=-1s",
	} {
		if got, err := etcdOf("--etcd-servers=http://a:1", flag); err == nil {
			t.Errorf("%s is taken: %+v", flag, got)
		}
	}
}

// TestAnOverrideOfServersHasUpstreamsForm, and its error upstream's text.
func TestAnOverrideOfServersHasUpstreamsForm(t *testing.T) {
	for _, value := range []string{
		"events#http://a:1", "/events", "/events#", "/events#http://a:1;", "v1/a/b#http://a:1", "/events#http://a:1#x",
		"apps/#http://a:1",
	} {
		_, err := etcdOf("--etcd-servers=http://m:1", "--etcd-servers-overrides="+value)
		if err == nil || !strings.Contains(err.Error(), "must be of format: group/resource#servers") {
			t.Errorf("--etcd-servers-overrides=%s: %v, want an error that says the form", value, err)
		}
	}
}
