package apiserver_test

import (
	"flag"
	"path/filepath"
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

// TestScripts plays every script against both servers. A difference that is not in
// the table fails it, and so does an entry of the table that no difference matches.
func TestScripts(t *testing.T) {
	all := suite.Scripts(t, "testdata/scripts")
	s := &suite.Suite{Table: suite.Table(t, differences)}
	t.Cleanup(func() { s.Report(t, all) })
	p := newPair(t)
	for _, one := range all {
		t.Run(one.Name, func(t *testing.T) {
			upstream, gapless := p.play(t, one)
			if *dump {
				suite.Show(t, "upstream", upstream)
				suite.Show(t, "gapless", gapless)
			}
			s.Judge(t, one, upstream, gapless)
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
