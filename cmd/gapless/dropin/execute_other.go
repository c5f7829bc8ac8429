//go:build !unix

package dropin

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// execute runs the program at path.
func (p Program) execute(ctx context.Context, path string, env []string) int {
	cmd := exec.CommandContext(ctx, path, p.Args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, p.In, p.Out, p.Err
	err := cmd.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode()
	}
	if err != nil {
		_, _ = fmt.Fprintf(p.Err, "kubectl: error: run %s: %v\n", path, err)
		return 1
	}
	return 0
}
