//go:build invariants

package revlog

import "fmt"

// assertf panics when an invariant of the log does not hold.
func assertf(holds bool, format string, args ...any) {
	if !holds {
		panic(fmt.Sprintf("revlog: broken invariant: "+format, args...))
	}
}
