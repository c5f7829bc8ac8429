package stored_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestAWriteOfUnknownOutcomeIsNoRefusal: after 503 clients repeat a write, because it has had no effect.
func TestAWriteOfUnknownOutcomeIsNoRefusal(t *testing.T) {
	unknown := fmt.Errorf("write a: %w", store.ErrOutcomeUnknown)
	away := &store.UnavailableError{Reading: true, Cause: errors.New("etcd does not answer")}
	for name, err := range map[string]error{
		"nobody says what came of it": errors.Join(unknown, away),
		"for a refusal":               fmt.Errorf("write a: %w: %w", store.ErrOutcomeUnknown, away),
		"before the end of the store": fmt.Errorf("write a: %w: %w", store.ErrOutcomeUnknown, store.ErrClosed),
	} {
		if status := wire.StatusOf(stored.Failure(err)); status.Code != http.StatusInternalServerError {
			t.Errorf("%s: got %d %s, want 500", name, status.Code, status.Message)
		}
	}
	if status := wire.StatusOf(stored.Failure(away)); status.Code != http.StatusServiceUnavailable {
		t.Errorf("a refusal: got %d %s, want 503", status.Code, status.Message)
	}
}
