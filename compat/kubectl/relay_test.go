package main

import (
	"fmt"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestKubectlThroughARelay runs the scripts of testdata/relay with the oldest and the newest version,
// through a relay in front of kube-apiserver. The command
//
//	upstream stop|start
//
// kills kube-apiserver, and starts it again.
func TestKubectlThroughARelay(t *testing.T) {
	for _, v := range []version{{minor: 20, dir: "compat/kubectl/v120"}, newest} {
		t.Run(fmt.Sprintf("1.%d", v.minor), func(t *testing.T) {
			play(t, site{kubectl: v, dir: "testdata/relay"}, handlers{"upstream": upstream},
				func(env *testscript.Env) error {
					s := harness.StartSides(env.T().(testing.TB))
					env.Values[clusterKey] = s.Cluster
					// The client's own kubeconfig, as `gapless relay kubeconfig` makes it the relay's.
					own := s.Direct.Client.WriteKubeconfig(env.T().(testing.TB), s.Cluster.URL)
					env.Setenv("KUBECONFIG", s.Relay.Kubeconfig(env.T().(testing.TB), own, s.Relay.URL))
					return nil
				})
		})
	}
}

const clusterKey = "cluster"

func upstream(ts *testscript.TestScript, neg bool, args []string) {
	cluster, _ := ts.Value(clusterKey).(*harness.Cluster)
	switch {
	case !neg && len(args) == 1 && args[0] == "stop":
		cluster.Stop()
	case !neg && len(args) == 1 && args[0] == "start":
		cluster.Start()
	default:
		ts.Fatalf("usage: upstream stop|start")
	}
}
