package campaign

import (
	"testing"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

// TestWatchesAndListsSayDifferentlyThatHistoryIsGone: a watch has begun when it turns out.
func TestWatchesAndListsSayDifferentlyThatHistoryIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		answer program.Answer
		want   bool
	}{
		"a list":                       {program.Answer{Code: 410}, true},
		"a watch":                      {program.Answer{Code: 200, Body: []byte(`{"type":"ERROR","object":{"code":410}}`)}, true},
		"a watch that ends":            {program.Answer{Code: 200, Body: []byte(`{"type":"ERROR","object":{"code":500}}`)}, false},
		"a watch with an event":        {program.Answer{Code: 200, Body: []byte(`{"type":"ADDED","object":{"code":410}}`)}, false},
		"a watch without an event":     {program.Answer{Code: 200}, false},
		"a list that is answered":      {program.Answer{Code: 200, Body: []byte(`{"items":[]}`)}, false},
		"a list of the future":         {program.Answer{Code: 504}, false},
		"a request that finds nothing": {program.Answer{}, false},
	} {
		if got := isGone(c.answer); got != c.want {
			t.Errorf("%s: gone is %v, want %v", name, got, c.want)
		}
	}
}
