package seed_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/gapless-io/gapless/internal/seed"
	"github.com/gapless-io/gapless/internal/seed/manifest"
)

// FuzzApply: whatever a file contains is applied or refused with its problems, and what was
// applied is unchanged for the next start.
func FuzzApply(f *testing.F) {
	for _, text := range []string{
		shop + "---\n" + configMap("shop", "a", "x"), cronTab + "---\n" + definition + "---\n" + shop,
		shop + "---\n" + deployment,
		`{"kind":"List","apiVersion":"v1","items":[{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"}}]}`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: null", "kind: List\nitems: [{kind: List, items: [[]]}]", "a: 1\n b",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := start(t)
		dir := write(t, "a.yaml", string(text))
		once := func() (seed.Result, error) {
			files, err := manifest.Find([]string{dir})
			if err != nil {
				t.Fatalf("find: %v", err)
			}
			return seed.New(seed.Config{
				Verbs: s, Live: s.live, Files: files, Logger: slog.New(slog.DiscardHandler),
			}).Apply(t.Context())
		}
		before := s.revision()
		first, err := once()
		if err != nil {
			refused, is := errors.AsType[*seed.Error](err)
			if !is || len(refused.Problems) == 0 || refused.Nothing && s.revision() != before {
				t.Fatalf("refused with %v, revision %d after %d", err, s.revision(), before)
			}
			return
		}
		before = s.revision()
		if again, err := once(); err != nil || again.Created+again.Updated > 0 ||
			again.Unchanged != first.Created+first.Unchanged || s.revision() != before {
			t.Fatalf("first %+v, again %+v, %v", first, again, err)
		}
	})
}
