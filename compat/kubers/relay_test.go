package kubers

import (
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

func TestKubeRSWatcherBehindARelayResumesOverARestart(t *testing.T) {
	harness.RestartClients(t, harness.Client{Name: "kube-rs 5.0.0", Namespace: "rust", Command: []string{build(t, "v5", "")}})
}

func TestKubeRSWatcherBehindARelayListsOnce(t *testing.T) {
	harness.ClientsBehindRelay(t, 1, harness.Client{
		Name: "kube-rs 5.0.0", Namespace: "plain", Command: []string{build(t, "v5", "")},
	})
}

func TestKubeRSWritesOnceBehindAnAPIServerThatSendsClientsAway(t *testing.T) {
	harness.Long(t)
	build(t, "v5", "") // all programs
	harness.WritesUnderGoAway(t, map[string]harness.Writing{
		"kube-rs 5.0.0": harness.WritingProgram(filepath.Join(harness.CacheDir(t, "kubers"), "v5", "debug", "writing")),
	})
}
