package suites

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

var (
	all  = flag.Bool("all", false, "run all suites, on both sides; takes most of an hour")
	only = flag.String("only",
		"", "with -all: run the suites whose name this expression matches; starts is the measurement of starts")
	onSide = flag.String("side", "", "with -all: run them on this side only, gapless or upstream")
	update = flag.Bool("update", false, "with -all: write what was measured, the lists of what fails, and the page")
)

// TestSuitesPassOnTheInstalledProgram runs the shortest suites on gapless.
func TestSuitesPassOnTheInstalledProgram(t *testing.T) {
	if *all {
		t.Skip("the next test runs all of them")
	}
	gapless, listed := installGapless(t), readList(t, "gapless")
	for _, s := range suites() {
		if !slices.Contains(short, s.name()) {
			continue
		}
		t.Run(s.name(), func(t *testing.T) {
			o := s.run(t, gapless, listed[s.name()])
			logOutcome(t, o)
			compare(t, o, listed[s.name()])
		})
	}
}

// TestSuitesFailAsListed runs all suites on both sides, one at a time, so that they can be compared.
func TestSuitesFailAsListed(t *testing.T) {
	if !*all {
		t.Skip("without -all")
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	var sides []side
	for name, install := range map[string]func(*testing.T) side{"gapless": installGapless, "upstream": installUpstream} {
		if *onSide == "" || *onSide == name {
			sides = append(sides, install(t))
		}
	}
	if len(sides) == 0 {
		t.Fatalf("there is no side %q", *onSide)
	}
	slices.SortFunc(sides, func(a, b side) int { return strings.Compare(a.name, b.name) })
	m := readMeasured(t)
	if chosen.MatchString("starts") {
		start := harness.CacheDir(t, "suites") + "/start"
		harness.Must(t, ".", []string{"GOWORK=auto"}, "go", "build", "-o", start, "./start")
		for _, on := range sides {
			m.Starts[on.name] = measureStarts(t, start, on)
		}
	}
	for _, s := range suites() {
		if !chosen.MatchString(s.name()) {
			continue
		}
		t.Run(s.name(), func(t *testing.T) {
			for _, on := range sides {
				t.Run(on.name, func(t *testing.T) {
					listed := readList(t, on.name)
					o := s.run(t, on, listed[s.name()])
					logOutcome(t, o)
					if *update {
						listed[s.name()] = explained(o, listed[s.name()])
						writeList(t, on.name, listed)
						m.set(s, on, o)
						m.write(t) // a run can be interrupted
					}
					compare(t, o, listed[s.name()])
				})
			}
		})
	}
	if *update {
		m.write(t)
		writePage(t, m)
	}
}

func logOutcome(t *testing.T, o outcome) {
	t.Helper()
	t.Logf("%d passed, %d failed, %d skipped in %.1f s; the servers took %.1f s of processors",
		o.Passed, len(o.Failed), o.Skipped, o.Seconds, o.Servers)
}

// start is how long package envtest took to start and to stop a control plane, in milliseconds.
type start struct {
	Start []int `json:"start_ms"`
	Stop  []int `json:"stop_ms"`
}

// measureStarts starts a control plane several times.
func measureStarts(t *testing.T, program string, on side) start {
	t.Helper()
	absolute, err := filepath.Abs(program)
	if err != nil {
		t.Fatalf("abs: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), absolute, "7")
	cmd.Env = on.environment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("start on %s: %v\n%s", on.name, err, out)
	}
	var m start
	for line := range strings.Lines(string(out)) {
		var begin, end int
		if _, err := fmt.Sscanf(line, "%d %d", &begin, &end); err == nil {
			m.Start, m.Stop = append(m.Start, begin), append(m.Stop, end)
		}
	}
	slices.Sort(m.Start)
	slices.Sort(m.Stop)
	t.Logf("control plane of %s: start %v ms, stop %v ms", on.name, m.Start, m.Stop)
	return m
}
