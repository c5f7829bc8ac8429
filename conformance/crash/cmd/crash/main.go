// Command crash kills the program many times and reports whether it kept what it had
// acknowledged; with -replay it checks a saved history again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/crash"
	"github.com/gapless-io/gapless/conformance/crash/linear"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("crash", flag.ContinueOnError)
	cfg := crash.Config{Out: out}
	flags.IntVar(&cfg.Kills, "kills", 1000, "how often to kill the program")
	flags.Uint64Var(&cfg.Seed, "seed", 0, "repeats the choices of a run, though not its timing; 0 picks one")
	flags.StringVar(&cfg.Program, "program", "", "the built program; without it, it is built")
	flags.StringVar(&cfg.Dir, "dir", "",
		"an empty directory for data, logs and histories; without it, a temporary one, which a run without violations removes")
	flags.IntVar(&cfg.Writers, "writers", 64, "clients that write")
	flags.IntVar(&cfg.Readers, "readers", 6, "clients that read")
	flags.DurationVar(&cfg.Pause, "pause", 60*time.Millisecond, "mean time between two writes of a client")
	replay := flags.String("replay", "", "check this saved history instead, and draw it as a web page beside it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *replay != "" {
		return check(*replay, out)
	}
	return kill(ctx, cfg)
}

func kill(ctx context.Context, cfg crash.Config) error {
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	temporary := cfg.Dir == ""
	if temporary {
		var err error
		if cfg.Dir, err = os.MkdirTemp("", "gapless-crash-"); err != nil {
			return err
		}
	}
	if cfg.Program == "" {
		var err error
		if cfg.Program, err = harness.Build(ctx, cfg.Dir, harness.Root(), "cmd/gapless"); err != nil {
			return err
		}
	}
	fmt.Fprintf(cfg.Out, "seed %d, %d kills, in %s\n", cfg.Seed, cfg.Kills, cfg.Dir)
	report, err := crash.Run(ctx, cfg)
	fmt.Fprintf(cfg.Out, "seed %d\n%s\n", cfg.Seed, report)
	if err == nil && report.Violations > 0 {
		err = fmt.Errorf("%d violations; data, log and histories are in %s", report.Violations, cfg.Dir)
	}
	if err == nil && temporary {
		return os.RemoveAll(cfg.Dir)
	}
	return err
}

// check is for a saved history.
func check(path string, out io.Writer) error {
	h, err := linear.Load(path)
	if err != nil {
		return err
	}
	verdict := h.Check(10 * time.Minute)
	if err := verdict.Draw(path + ".html"); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d operations of seed %d, %s: %s; drawn in %s\n", len(h.Ops), h.Seed, h.Note, verdict.Result, path+".html")
	if verdict.Result != porcupine.Ok {
		return fmt.Errorf("the history is not linearizable, or too hard to check: %s", verdict.Result)
	}
	return nil
}
