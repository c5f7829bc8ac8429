package registry

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/warning"
)

// heard collects the warnings about one write, each once, in the order in which they come:
// those of the decoder, of mutating plugins, of validation, of validating plugins.
type heard struct {
	// mu guards texts: plugins may ask several webhooks at once.
	mu    sync.Mutex
	texts []string
}

var _ warning.Recorder = (*heard)(nil)

// maxWarnings is how many warnings are collected. An answer has room for fewer (see package
// internal/apiserver), but a body may have a hundred thousand unknown fields.
const maxWarnings = 1000

// AddWarning implements warning.Recorder.
func (h *heard) AddWarning(_, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.texts) < maxWarnings && !slices.Contains(h.texts, text) {
		h.texts = append(h.texts, text)
	}
}

// all returns what was heard so far.
func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.texts)
}

// hear returns a context whose warnings are collected.
func hear(ctx context.Context) (context.Context, *heard) {
	h := &heard{}
	return warning.WithWarningRecorder(ctx, h), h
}

// warn adds warnings to those about the write of a context.
func warn(ctx context.Context, texts []string) {
	for _, text := range texts {
		warning.AddWarning(ctx, "", text)
	}
}
