package operators

import (
	"regexp"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

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
