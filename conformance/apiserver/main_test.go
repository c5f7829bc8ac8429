package apiserver_test

import (
	"flag"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/differential/suite"
)

var (
	update = flag.Bool("update", false, "write the table of differences into docs/differences.md")
	built  = flag.String("program", "", "a gapless program that is built already, instead of one from this checkout")
	dump   = flag.Bool("dump", false, "print what both servers showed")
)

const differences = "testdata/differences.txt"

func TestMain(m *testing.M) {
	// The client of etcd looks once for what is set in its environment, and its logger stays.
	goleak.VerifyTestMain(m)
}

// TestScripts plays scripts against kube-apiserver and the program, on a directory and over etcd, without the
// admission plugins that refuse pods to whoever has no controllers. A
// difference that is not in the table fails it, and so does an entry of the table that no difference
// of the directory matches.
func TestScripts(t *testing.T) {
	compareServers(t, "testdata/scripts", setup{off: left, on: optional, flags: []string{"--authorization-mode=RBAC"}})
}

// TestDefaults does the same with all plugins that both servers have, and with others who know callers and decide.
func TestDefaults(t *testing.T) {
	flags, variables := access(t)
	compareServers(t, "testdata/defaults", setup{on: slices.Concat(optional, others), flags: flags, variables: variables})
}

func compareServers(t *testing.T, scripts string, of setup) {
	t.Helper()
	compareOn(t, scripts, start(t, of))
}

func compareOn(t *testing.T, scripts string, servers *servers) {
	t.Helper()
	all := suite.Scripts(t, scripts)
	// Both tests have a part of the scripts.
	alone := &suite.Suite{Table: suite.Table(t, differences), Part: scripts != "testdata/scripts"}
	replica := &suite.Suite{Table: alone.Table}
	t.Cleanup(func() { alone.Report(t, all) }) // over etcd, some that the encoding makes are missing
	for _, one := range all {
		t.Run(one.Name, func(t *testing.T) {
			p := servers.play(t, one)
			if *dump {
				suite.Show(t, "upstream", p.upstream)
				suite.Show(t, "gapless", p.gapless)
				suite.Show(t, "gapless over etcd", p.replica)
			}
			t.Run("directory", func(t *testing.T) { alone.Judge(t, one, p.upstream, p.gapless) })
			t.Run("etcd", func(t *testing.T) { replica.Judge(t, one, p.upstream, p.replica) })
		})
	}
}

// TestDocumentHasTheTable compares the part of the documentation that is written
// from the table, or writes it.
func TestDocumentHasTheTable(t *testing.T) {
	suite.Document{
		Path:  filepath.Join(harness.Root(), "docs/differences.md"),
		Begin: "<!-- begin: written by go test -update in conformance/apiserver -->\n",
		End:   "<!-- end of conformance/apiserver -->\n", Update: *update,
	}.Check(t, suite.Table(t, differences))
}
