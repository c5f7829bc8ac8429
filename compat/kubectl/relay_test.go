package main

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestKubectlThroughARelay runs the scripts of testdata/relay with the oldest and the newest version,
// through a relay in front of kube-apiserver. Besides the commands of [TestKubectl] there are
//
//	upstream stop|start   kills kube-apiserver, and starts it again
//	upstream fill N       creates N ConfigMaps, past the relay
//	upstream passed       prints how many reads of ConfigMaps the relay has passed on
//	relay restart         restarts the relay
//	mirrored PATH NAME    waits until the relay mirrors a resource
func TestKubectlThroughARelay(t *testing.T) {
	for _, v := range []version{{minor: 20, dir: "compat/kubectl/v120"}, newest} {
		t.Run(fmt.Sprintf("1.%d", v.minor), func(t *testing.T) {
			play(t, site{kubectl: v, dir: "testdata/relay"}, handlers{"upstream": upstream, "relay": relay, "mirrored": mirrored},
				func(env *testscript.Env) error {
					tb := env.T().(testing.TB) //nolint:forcetypeassert // testscript.Run was given one
					s := harness.StartSides(tb)
					env.Values[sidesKey] = &sides{s, tb}
					// The client's own kubeconfig, as `gapless relay kubeconfig` makes it the relay's.
					env.Setenv("KUBECONFIG",
						s.Relay.Kubeconfig(tb, s.Direct.Client.WriteKubeconfig(tb, s.Cluster.URL), s.Relay.URL))
					return nil
				})
		})
	}
}

const sidesKey = "sides"

// sides are those of a script.
type sides struct {
	*harness.Sides

	t testing.TB
}

func sidesOf(ts *testscript.TestScript) *sides {
	s, _ := ts.Value(sidesKey).(*sides)
	return s
}

func upstream(ts *testscript.TestScript, neg bool, args []string) {
	s := sidesOf(ts)
	switch {
	case !neg && len(args) == 1 && args[0] == "stop":
		s.Cluster.Stop()
	case !neg && len(args) == 1 && args[0] == "start":
		s.Cluster.Start()
	case !neg && len(args) == 1 && args[0] == "passed":
		_, err := fmt.Fprintln(ts.Stdout(), s.Cluster.Reads(harness.Passed))
		ts.Check(err)
	case !neg && len(args) == 2 && args[0] == "fill":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		harness.Fill(s.t, s.Cluster.Admin.Client(s.t), s.Cluster.URL+"/api/v1/namespaces/default/configmaps", n)
	default:
		ts.Fatalf("usage: upstream stop|start|passed|fill N")
	}
}

func relay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || args[0] != "restart" {
		ts.Fatalf("usage: relay restart")
	}
	s := sidesOf(ts)
	s.Relay.Restart(s.t)
}

func mirrored(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mirrored PATH NAME")
	}
	s := sidesOf(ts)
	s.Relay.Mirror(s.t, s.Relayed.Client.Client(s.t), args[0], args[1])
}
