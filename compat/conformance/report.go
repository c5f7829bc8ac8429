package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// between stands between a spec's name and those of what it is in.
const between = " > "

// specs reads ginkgo's report: what each spec that ran failed with, "" if it passed, by
// its full name. Nodes that have no name, like BeforeSuite, are there if they failed.
func specs(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText            string
			LeafNodeType            string
			State                   string
			Failure                 struct{ Message, ForwardedPanic string }
		}
	}
	if err := json.Unmarshal(text, &reports); err != nil {
		return nil, fmt.Errorf("ginkgo's report: %w", err)
	}
	all := map[string]string{}
	for _, report := range reports {
		for _, s := range report.SpecReports {
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), between)
			if s.LeafNodeType != "It" {
				name = s.LeafNodeType
			}
			for n, first := 2, name; ; n++ {
				if _, taken := all[name]; !taken {
					break
				}
				name = fmt.Sprintf("%s (%d)", first, n)
			}
			switch {
			case s.State == "skipped", s.State == "pending":
			case s.State == "passed" && s.LeafNodeType == "It":
				all[name] = ""
			case s.State != "passed":
				all[name] = s.State + ": " + s.Failure.Message + s.Failure.ForwardedPanic
			}
		}
	}
	return all, nil
}

// plainVerdict is a line of a test program's output with -test.v.
var plainVerdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL): (\S+)`)

// plainTests reads what a test program with -test.v said: what each test that has no others
// in it failed with, "" if it passed.
func plainTests(said string) map[string]string {
	all := map[string]string{}
	for _, m := range plainVerdict.FindAllStringSubmatch(said, -1) {
		all[m[2]] = ""
		if m[1] == "FAIL" {
			all[m[2]] = "failed:\n" + said[max(0, len(said)-4<<10):]
		}
	}
	for name := range all {
		for i, r := range name {
			if r == '/' {
				delete(all, name[:i])
			}
		}
	}
	return all
}
