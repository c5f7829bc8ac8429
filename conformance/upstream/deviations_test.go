package upstream_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// skipped are the tests of upstream that are not run, with the reason.
func skipped() map[string]string {
	const (
		ttl       = "gapless has no time to live"
		transform = "needs stored values that cannot be read, made by etcd's transformers; " +
			"gapless stores JSON under checksums, and does not serve a log that is damaged"
		unsafe    = "upstream's unsafe deletion of objects that cannot be read; " + transform
		benchmark = "a benchmark; bench/ measures servers over HTTP"
	)
	return map[string]string{
		"RunTestCreateWithTTL":                                                ttl,
		"RunTestGuaranteedUpdateWithTTL":                                      ttl,
		"RunTestTransformationFailure":                                        transform,
		"RunTestGetListWithErrorAggregation":                                  transform,
		"RunTestGetListWithoutErrorAggregation":                               transform,
		"RunTestWatchError":                                                   transform,
		"RunWatchErrorIsBlockingFurtherEvents":                                transform,
		"RunTestWatchWithUnsafeDelete":                                        unsafe,
		"RunTestDeleteExpectedTransformOrDecodeError":                         unsafe,
		"RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError":   unsafe,
		"RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": unsafe,
		"RunBenchmarkWriteThroughput":                                         benchmark,
		"RunBenchmarkStoreList":                                               benchmark,
		"RunBenchmarkStoreStats":                                              benchmark,
	}
}

// deviation is a case of a suite that gapless answers better on purpose.
type deviation struct {
	suite, name string // as the cases are named upstream
	reason      string
}

func deviations() []deviation {
	const quiet = "410 upstream after any compaction; here only when something of the pods was superseded by then " +
		"(ARCHITECTURE.md invariant 8; TestQuietResourceDoesNotExpire)"
	return []deviation{
		{"RunTestList", "test List on existing key with resource version set before first write, match=Exact", quiet},
		{"RunTestList", "test List with resource version set before first write, match=Exact", quiet},
		{"RunTestList", "test List with continue, resource version before first write", quiet},
	}
}

// caseName is the name of a case as the testing package writes it.
func (d deviation) caseName() string { return strings.ReplaceAll(d.name, " ", "_") }

// leftOut is the pattern for -skip that leaves out the deviations.
func leftOut() string {
	var names []string
	for _, d := range deviations() {
		names = append(names, regexp.QuoteMeta(d.caseName()))
	}
	return "^TestUpstream$/^RunTestList$/.*/^(" + strings.Join(names, "|") + ")$"
}

func TestListedDeviationsStillExist(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	run := strings.Replace(leftOut(), "/.*/", "/^memory$/", 1)
	out, err := exec.CommandContext(t.Context(), program, "-test.v", "-test.count=1", "-test.skip=", "-test.run",
		run).CombinedOutput()
	if err == nil {
		t.Errorf("the cases that are left out pass:\n%s", out)
	}
	for _, d := range deviations() {
		if line := fmt.Sprintf("--- FAIL: TestUpstream/%s/memory/%s ",
			d.suite, d.caseName()); !strings.Contains(string(out), line) {
			t.Errorf("not a deviation any more, or another name: %s %q\n%s", d.suite, d.name, out)
		}
	}
}

// TestQuietResourceDoesNotExpire shows what the deviations are about: a compaction that
// removes no version of a pod leaves pods readable at every revision; after one that
// does, older revisions get 410.
func TestQuietResourceDoesNotExpire(t *testing.T) {
	for engine, config := range engines() {
		t.Run(engine, func(t *testing.T) {
			w := open(t, config(t))
			ctx := t.Context()
			before := w.listAt(ctx, t, "", "").ResourceVersion
			touch := w.touch(ctx, t)
			created := w.listAt(ctx, t, "", "").ResourceVersion
			w.compact(ctx, t, created)
			for range 3 {
				w.compact(ctx, t, fmt.Sprint(w.increaseRV(ctx, t)))
			}
			token, err := storage.EncodeContinue("/pods/a", "/pods/", 1)
			if err != nil {
				t.Fatalf("encode continue: %v", err)
			}
			if list := w.listAt(ctx, t, before, ""); len(list.Items) != 0 || list.ResourceVersion != before {
				t.Errorf("before the first write: %d pods at %s, want none at %s", len(list.Items), list.ResourceVersion, before)
			}
			if list := w.listAt(ctx, t, "", token); len(list.Items) != 0 || list.ResourceVersion != "1" {
				t.Errorf("by a token: %d pods at %s, want none at 1", len(list.Items), list.ResourceVersion)
			}
			if list := w.listAt(ctx, t, created, ""); len(list.Items) != 1 || list.ResourceVersion != created {
				t.Errorf("at the first write: %d pods at %s, want 1 at %s", len(list.Items), list.ResourceVersion, created)
			}

			w.compact(ctx, t, fmt.Sprint(touch(ctx, t)))
			for name, opts := range map[string]storage.ListOptions{
				"The resourceVersion for the provided list is too old": exactly(created, ""),
				"The provided continue parameter is too old":           exactly("", token),
			} {
				if err := w.GetList(ctx, "/pods/", opts, &example.PodList{}); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("after a pod was superseded: %v, want %q", err, name)
				}
			}
		})
	}
}

// exactly lists by a token, or the state at rv, or, without either, the most
// recent one.
func exactly(rv, token string) storage.ListOptions {
	opts := storage.ListOptions{ResourceVersion: rv, Predicate: storage.Everything, Recursive: true}
	opts.Predicate.Continue = token
	if rv != "" {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	return opts
}

func (w *world) listAt(ctx context.Context, t *testing.T, rv, token string) *example.PodList {
	t.Helper()
	list := &example.PodList{}
	if err := w.GetList(ctx, "/pods/", exactly(rv, token), list); err != nil {
		t.Fatalf("list at %q, continue %q: %v", rv, token, err)
	}
	return list
}
