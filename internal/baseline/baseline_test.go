package baseline_test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/gapless-io/gapless/internal/baseline"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// held returns what a store holds, without revisions.
func held(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	page, err := s.Read(t.Context(), store.Query{End: "\xff"})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	all := map[string]string{}
	for _, r := range page.Records {
		all[r.Key] = string(r.Value)
	}
	return all
}

func memory(t *testing.T) store.Store {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }() // ends with stop
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
		if err := log.Close(); err != nil {
			t.Errorf("close log: %v", err)
		}
	})
	return log
}

// put writes a key, or deletes it if value is "", whatever it holds.
func put(t *testing.T, s store.Store, key, value string) {
	t.Helper()
	page, err := s.Read(t.Context(), store.Query{Start: key})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	txn := store.Txn{Key: key, Value: []byte(value), Delete: value == ""}
	for _, r := range page.Records {
		txn.ExpectedModRevision = r.ModRevision
	}
	if _, err := s.Commit(t.Context(), txn); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func TestRestoreUndoesCreationsUpdatesAndDeletions(t *testing.T) {
	s := memory(t)
	for i := range 50 {
		put(t, s, fmt.Sprintf("configmaps/default/%d", i), "before")
	}
	want := held(t, s)
	b, err := baseline.Take(t.Context(), s)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	if last, err := b.Restore(t.Context(), s); last != 0 || err != nil {
		t.Errorf("nothing differs, and Restore wrote up to revision %d: %v", last, err)
	}
	for i := range 50 {
		switch i % 3 {
		case 0:
			put(t, s, fmt.Sprintf("configmaps/default/%d", i), "")
		case 1:
			put(t, s, fmt.Sprintf("configmaps/default/%d", i), "after")
		}
		put(t, s, fmt.Sprintf("secrets/default/%d", i), "new")
	}
	last, err := b.Restore(t.Context(), s)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	if got := held(t, s); !maps.Equal(got, want) {
		t.Errorf("the store holds %v, want %v", got, want)
	}
	if now, err := s.Progress(t.Context()); err != nil || last != now {
		t.Errorf("Restore returned %d, the last revision is %d: %v", last, now, err)
	}
}

// TestDefinitionsAreRemovedAfterTheirObjects would leave objects behind that nobody serves.
func TestDefinitionsAreRemovedAfterTheirObjects(t *testing.T) {
	s := memory(t)
	b, err := baseline.Take(t.Context(), s)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	const definition = "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com"
	put(t, s, definition, "x")
	for i := range 10 {
		put(t, s, fmt.Sprintf("widgets.example.com/default/%d", i), "x")
	}
	changes, err := s.Changes(t.Context(), store.From{After: 1_000_000_011})
	if err != nil {
		t.Fatalf("ask for changes: %v", err)
	}
	defer func() { _ = changes.Close() }() // it only ends
	if _, err := b.Restore(t.Context(), s); err != nil {
		t.Fatalf("restore: %v", err)
	}
	var deleted []string
	for len(deleted) < 11 {
		batch, err := changes.Next(t.Context())
		if err != nil {
			t.Fatalf("next changes: %v", err)
		}
		for _, c := range batch.Changes {
			deleted = append(deleted, c.Key)
		}
	}
	if deleted[10] != definition {
		t.Errorf("the deletions are %v", deleted)
	}
}
