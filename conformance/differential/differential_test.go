package differential_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/differential/compare"
	"github.com/gapless-io/gapless/conformance/differential/suite"
)

var (
	full   = flag.Bool("full", false, "play the scripts that take minutes as well")
	update = flag.Bool("update", false, "write the table of differences into docs/differences.md")
	built  = flag.String("program", "", "a gapless program that is built already, instead of one from this checkout")
	dump   = flag.Bool("dump", false, "print what both servers showed")
)

// lanes is how many pairs of servers there are. Scripts mostly wait.
const lanes = 4

const differences = "testdata/differences.txt"

// The reference server's goroutines outlive it (see package oracle), so this package
// does not look for leaked ones; those below it do.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(lanes)); err != nil {
		panic(err)
	}
	os.Exit(m.Run()) //nolint:forbidigo // m.Run wants it
}

// build returns the program that is tested.
func build(t *testing.T) string {
	t.Helper()
	if *built != "" {
		return *built
	}
	binary, err := harness.Build(t.Context(), t.TempDir(), harness.Root(), "cmd/gapless")
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return binary
}

// tries is how often a script is played at most that depends on how busy the machine is.
const tries = 3

// TestScripts plays every script against both servers. A difference that is not in
// the table fails it, and so does an entry of the table that no difference matches.
func TestScripts(t *testing.T) {
	all := suite.Scripts(t, "testdata/scripts")
	binary := build(t)
	s := &suite.Suite{Table: suite.Table(t, differences)}
	t.Cleanup(func() { s.Report(t, all) })
	pairs := make(chan *pair, lanes)
	for range lanes {
		pairs <- newPair(t, binary)
	}
	for i, one := range all {
		t.Run(one.Name, func(t *testing.T) {
			if one.Full && !*full {
				t.Skip("only with -full")
			}
			t.Parallel()
			p := <-pairs
			defer func() { pairs <- p }()
			shown := map[string]string{} // by gapless, in each case
			for try := range tries {
				upstream, gapless := p.play(t, one, fmt.Sprintf("s%02d%c.example.com", i, 'a'+try))
				for _, c := range one.Cases { // only upstream may show something else when it is played again
					now := compare.Summary(c.Name, gapless)
					if before, played := shown[c.Name]; played && before != now {
						t.Errorf("%s: gapless shows %q, and before %q", c.Name, now, before)
					}
					shown[c.Name] = now
				}
				if *dump {
					suite.Show(t, "upstream", upstream)
					suite.Show(t, "gapless", gapless)
				}
				if try+1 < tries && one.Timed() && !s.Agree(one, upstream, gapless) {
					t.Logf("it differs, and it may be a matter of time: it is played again")
					continue
				}
				s.Judge(t, one, upstream, gapless)
				return
			}
		})
	}
}

// TestDocumentHasTheTable compares the part of the documentation that is written
// from the table, or writes it.
func TestDocumentHasTheTable(t *testing.T) {
	suite.Document{
		Path:  filepath.Join(harness.Root(), "docs/differences.md"),
		Begin: "<!-- begin: written by go test -update in conformance/differential -->\n",
		End:   "<!-- end -->\n", Update: *update,
	}.Check(t, suite.Table(t, differences))
}
