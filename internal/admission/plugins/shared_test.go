//go:build invariants

package plugins_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/admission/plugins"
)

func TestWhoChangesASharedValueIsFound(t *testing.T) {
	s := plugins.NewShared(map[string]any{"sources": []any{map[string]any{"path": "token"}}})
	s.Value()
	sources, _ := s.Value()["sources"].([]any)
	sources[0] = "another"
	defer func() {
		if recover() == nil {
			t.Error("a value was given away that somebody had changed")
		}
	}()
	s.Value()
}
