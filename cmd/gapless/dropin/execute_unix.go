//go:build unix

package dropin

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// execute lets the program at path take the place of this process.
func (p Program) execute(_ context.Context, path string, env []string) int {
	err := unix.Exec(path, append([]string{"kubectl"}, p.Args...), env)
	_, _ = fmt.Fprintf(p.Err, "kubectl: error: run %s: %v\n", path, err)
	return 1
}
