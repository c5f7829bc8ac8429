package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// loadedAtOnce is more than one read of a load returns.
const loadedAtOnce = 1010

// writtenPod is the write of a pod with a label.
func writtenPod(name, label string) store.Txn {
	value := fmt.Sprintf(`{"metadata":{"namespace":"ns","name":%q,"labels":{"v":%q}}}`, name, label)
	return store.Txn{Key: "pods/ns/" + name, Value: []byte(value)}
}

// runningLog is a log in memory that takes writes until the test ends.
func runningLog(t *testing.T) *revlog.Log {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open a log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Errorf("close the log: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("run the log: %v", err)
		}
	})
	return log
}

// TestLoadHasAllObjectsInTheOrderOfTheirKeys has several pages, and objects so large that a page is read in several steps.
func TestLoadHasAllObjectsInTheOrderOfTheirKeys(t *testing.T) {
	log := runningLog(t)
	var want []string
	for i := range 2 * loadedAtOnce {
		name, label := fmt.Sprintf("o%05d", i), "small"
		if i%300 == 7 {
			label = strings.Repeat("large", 100_000)
		}
		if _, err := log.Commit(t.Context(), writtenPod(name, label)); err != nil {
			t.Fatalf("commit: %v", err)
		}
		want = append(want, name)
	}
	at := log.Stats().Revision
	if _, err := log.Commit(t.Context(), writtenPod("o00000a", "later")); err != nil { // it is not in the state that is read
		t.Fatalf("commit: %v", err)
	}
	r := stored.NewSource(log).Resource(kinds.GroupResource{Resource: "pods"}, nil)
	objects, err := r.Load(t.Context(), at)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.Key().Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("other objects are loaded (-want +got):\n%s", diff)
	}
}

// TestLoadOfAnUnreadableValueFailsOrLeavesItOut: the server that wrote all values does not start over one.
func TestLoadOfAnUnreadableValueFailsOrLeavesItOut(t *testing.T) {
	log := runningLog(t)
	for i := range loadedAtOnce {
		txn := writtenPod(fmt.Sprintf("o%05d", i), "")
		if i == loadedAtOnce-5 {
			txn.Value = []byte("damaged")
		}
		if _, err := log.Commit(t.Context(), txn); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	at := log.Stats().Revision
	r := stored.NewSource(log).Resource(kinds.GroupResource{Resource: "pods"}, nil)
	if objects, err := r.Load(t.Context(), at); err == nil || len(objects) > 0 {
		t.Errorf("%d objects were loaded, %v", len(objects), err)
	}
	objects, lost, err := r.LoadReadable(t.Context(), at)
	if err != nil || len(objects) != loadedAtOnce-1 {
		t.Errorf("%d objects were loaded, %v", len(objects), err)
	}
	if want := fmt.Sprintf("pods/ns/o%05d", loadedAtOnce-5); len(lost) != 1 || lost[0].Key != want {
		t.Errorf("%v was left out, not %s", lost, want)
	}
}
