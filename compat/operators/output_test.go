package operators

import (
	"bytes"
	"regexp"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

// output is what a program has printed so far.
type output struct {
	mu sync.Mutex
	// mu guards text.
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// said waits until a program has printed something, and returns the first group of the pattern.
func (p *program) said(t *testing.T, pattern *regexp.Regexp) string {
	t.Helper()
	var found []string
	harness.Eventually(t, p.name+" prints "+pattern.String(), func() bool {
		found = pattern.FindStringSubmatch(p.log.String())
		return found != nil
	})
	return found[1]
}
