package index

import (
	"fmt"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// Superseded returns the keys of which the changes superseded something, each once.
func Superseded(changes []Change) []string {
	var keys []string
	seen := map[string]bool{}
	for _, c := range changes {
		if c.Supersedes && !seen[c.Key] {
			seen[c.Key] = true
			keys = append(keys, c.Key)
		}
	}
	return keys
}

// SpanOf returns the range of the keys of a feed. Errors: store.ErrInvalid.
func SpanOf(f store.From) (Span, error) {
	switch {
	case f.After < 0, f.UpTo < 0, f.Limit < 0, f.MaxBytes < 0, f.Key != "" && f.Prefix != "",
		f.Prefix != "" && !format.ValidKey(f.Prefix), f.Key != "" && !format.ValidKey(f.Key):
		return Span{}, fmt.Errorf("changes of %.100q after %d up to %d, at most %d of %d bytes: %w",
			f.Prefix+f.Key, f.After, f.UpTo, f.Limit, f.MaxBytes, store.ErrInvalid)
	case f.Key != "":
		return Span{Start: f.Key, End: f.Key + "\x00"}, nil
	}
	return Span{Start: f.Prefix, End: store.PrefixEnd(f.Prefix)}, nil
}
