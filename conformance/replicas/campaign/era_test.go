package campaign

import (
	"testing"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

// TestWatchesAndListsSayDifferentlyThatHistoryIsGone: a watch has begun when it turns out.
func TestWatchesAndListsSayDifferentlyThatHistoryIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		body string
		want bool
	}{
		"a list":                       {410, "", true},
		"a watch":                      {200, `{"type":"ERROR","object":{"code":410}}`, true},
		"a watch that ends":            {200, `{"type":"ERROR","object":{"code":500}}`, false},
		"a watch with an event":        {200, `{"type":"ADDED","object":{"code":410}}`, false},
		"a watch without an event":     {200, "", false},
		"a list that is answered":      {200, `{"items":[]}`, false},
		"a list of the future":         {504, "", false},
		"a request that finds nothing": {0, "", false},
	} {
		if got := isGone(program.Answer{Code: c.code, Body: []byte(c.body)}); got != c.want {
			t.Errorf("%s: gone is %v, want %v", name, got, c.want)
		}
	}
}
