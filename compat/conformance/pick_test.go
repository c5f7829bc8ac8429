package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOnlyInformerTestsAreSelected(t *testing.T) {
	const source = `package cache

import (
	"errors"
	"fmt"
	"k8s.io/klog/v2"
	"testing"
)

func TestQueue(t *testing.T) { fmt.Println(errors.New("no informer")) }

func TestShared(t *testing.T) { helper{}.run(t) }

type helper struct{}

func (helper) run(t *testing.T) { klog.Info(NewSharedInformer(), inside(), message) }

func inside() int { return NewInformer().field }

const (
	message = "one is used"
	other   = "of these"
)

var _ = unknown

func TestMain(m *testing.M) { m.Run() }
`
	got, tests, err := informerTests(map[string][]byte{"a_test.go": []byte(source)}, map[string]bool{"inside": true})
	if err != nil {
		t.Fatalf("informer tests: %v", err)
	}
	if diff := cmp.Diff([]string{"TestShared"}, tests); diff != "" {
		t.Errorf("picked (-want +got):\n%s", diff)
	}
	want := strings.Split(source, "\n")
	for i, line := range want {
		for _, gone := range []string{"TestQueue", "func inside", "unknown", `"errors"`, `"fmt"`} {
			if strings.Contains(line, gone) {
				want[i] = ""
			}
		}
	}
	kept := slices.Collect(strings.SplitSeq(string(got["a_test.go"]), "\n"))
	for i := range kept {
		kept[i] = strings.TrimRight(kept[i], " \t")
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept, line by line (-want +got):\n%s", diff)
	}
}

func TestFailureListsRoundTrip(t *testing.T) {
	listed := map[string]string{
		"A > b": "It is late.", "A > c": sometimes + "it is early.", "D": "It is late.", "gone": "It was.",
	}
	got, err := readFailures(writeFailures("# What fails.\n", listed))
	if err != nil {
		t.Fatalf("read failures: %v", err)
	}
	if diff := cmp.Diff(listed, got); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
	if _, err := readFailures("    a spec\n"); err == nil {
		t.Error("a spec without a reason is taken")
	}
	results := map[string]string{"A > b": "", "A > c": "", "D": "still", "new": "a\nfailure"}
	want := map[string]string{"A > c": sometimes + "it is early.", "D": "It is late.", "new": unexplained + "a failure"}
	if diff := cmp.Diff(want, explained(results, listed)); diff != "" {
		t.Errorf("brought up to date (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"new"}, unlisted(results, listed)); diff != "" {
		t.Errorf("unlisted (-want +got):\n%s", diff)
	}
}

func TestVerdictsOfPlainTestsAreRead(t *testing.T) {
	const said = `=== RUN   TestA
    --- FAIL: TestA/one (0.00s)
        --- PASS: TestA/two/three (0.00s)
--- FAIL: TestA (0.00s)
--- PASS: TestB (0.00s)
--- SKIP: TestC (0.00s)
`
	want := map[string]string{"TestA/one": "failed:\n" + said, "TestA/two/three": "", "TestB": ""}
	if diff := cmp.Diff(want, plainTests(said)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
