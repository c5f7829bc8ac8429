// Command attacks plays attacks against the built program, and prints a table of
// what they cost a well-behaved client, and the server's memory.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/attacks"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if order := os.Getenv(attacks.OrderVariable); order != "" {
		err = attacks.RunOrder(ctx, order, os.Stdout)
	} else {
		err = run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	only := flag.String("run", ".", "play the attacks whose names match")
	path := flag.String("program", "", "the built program; it is built where this is empty")
	short := flag.Bool("short", false, "play the short form of CI")
	relay := flag.Bool("relay", false, "play those on connections, and with many watches, on a relay in front of the program")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gapless-attacks-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if *path == "" {
		if *path, err = harness.Build(ctx, dir, harness.Root(), "cmd/gapless"); err != nil {
			return err
		}
	}
	size := attacks.Full
	if *short {
		size = attacks.Short
	}
	target := attacks.NewTarget
	if *relay {
		target = attacks.NewRelayTarget
	}
	fmt.Println(attacks.Header)
	for i, attack := range attacks.All() {
		if !match.MatchString(attack.Name) || *relay && !attack.OnConnections {
			continue
		}
		at := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		t, err := target(ctx, *path, at, flag.Args()...)
		if err == nil {
			err = play(ctx, t, attack, size)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", attack.Name, err)
		}
	}
	return nil
}

// play plays an attack on a server, and closes it.
func play(ctx context.Context, t *attacks.Target, attack attacks.Attack, size attacks.Size) error {
	r, err := t.Play(ctx, attack, size)
	fmt.Fprint(os.Stderr, r)
	if closed := t.Close(); err == nil {
		err = closed
	}
	if err == nil {
		fmt.Println(r.Row())
	}
	return err
}
