// Command start starts and stops a control plane by package envtest of controller-runtime,
// as often as its argument says, and prints how long each start and each stop took, in
// milliseconds.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "start: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("got %d arguments, want how often to start", len(args))
	}
	times, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for range times {
		begin := time.Now()
		var env envtest.Environment
		if _, err := env.Start(); err != nil {
			return fmt.Errorf("start: %w", err)
		}
		started := time.Now()
		if err := env.Stop(); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		fmt.Printf("%d %d\n", started.Sub(begin).Milliseconds(), time.Since(started).Milliseconds())
	}
	return nil
}
