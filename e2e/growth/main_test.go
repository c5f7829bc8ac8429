// Package growth_test makes one dimension of a request larger, twice as large each time, and measures the
// processor time that a whole server takes for it: no request may cost more than its size.
package growth_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
