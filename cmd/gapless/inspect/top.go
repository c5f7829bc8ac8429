package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gapless-io/gapless/status"
)

// topInterval is how often top asks, unless --interval says otherwise.
const topInterval = 2 * time.Second

func (p Program) top() *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the state of a server, a replica or a relay live",
		Long: `Show what gapless status shows, live: one table at a time, sorted by a column. Keys:

` + keysHelp + `
If the output is no terminal, each answer is printed as by gapless status, after a line with the time.

` + explained,
		Example: `  gapless top
  gapless top --interval 10s >> log`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().DurationVar(&interval, "interval", topInterval, "time between two requests")
	connect := p.Connect(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if interval <= 0 {
			return p.Usage(fmt.Errorf("--interval %v: want a time like 2s", interval))
		}
		from, err := open(connect)
		if err != nil {
			return err
		}
		defer from.client.CloseIdle()
		t := &top{from: from, interval: interval, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
		_, reads := terminalOf(cmd.InOrStdin())
		if _, shows := terminalOf(cmd.OutOrStdout()); shows && reads {
			return t.show(cmd.Context(), cmd.InOrStdin())
		}
		return t.print(cmd.Context())
	}
	return cmd
}

// descriptor is one of a stream that may be a terminal.
type descriptor interface{ Fd() uintptr }

// terminalOf returns the descriptor of a stream that is a terminal.
func terminalOf(stream any) (fd int, is bool) {
	f, has := stream.(descriptor)
	if !has {
		return 0, false
	}
	fd = int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// top shows answers until a key, or its context, ends it.
type top struct {
	from     *source
	interval time.Duration
	out, err io.Writer
}

// answer is what the server has said, or why not.
type answer struct {
	report *report
	err    error
}

// ask asks the server once, for so many watches.
func (t *top) ask(ctx context.Context, watches int, rates *rates) answer {
	body, err := t.from.ask(ctx, watches)
	if err != nil {
		return answer{err: err}
	}
	r, err := t.from.report(body, rates)
	return answer{report: r, err: err}
}

// print prints each answer, without what only terminals know, until ctx ends. It fails if the first one is an error; after
// that it reports errors and goes on.
func (t *top) print(ctx context.Context) error {
	for n := 0; ; n++ {
		err := t.printOnce(ctx)
		if ctx.Err() != nil { // the user has ended it
			return nil //nolint:nilerr // what the end of ctx made fail is no failure
		}
		if err != nil && n == 0 {
			return err
		}
		if err != nil {
			_, _ = fmt.Fprintf(t.err, "# %v\n", err) // if it has gone, nobody reads it
		}
		select {
		case <-time.After(t.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *top) printOnce(ctx context.Context) error {
	a := t.ask(ctx, shownWatches, nil)
	if a.err != nil {
		return a.err
	}
	if _, err := fmt.Fprintf(t.out, "# %s\n", time.Now().Format(time.DateTime)); err != nil {
		return err
	}
	if err := a.report.print(t.out, false); err != nil {
		return err
	}
	_, err := fmt.Fprintln(t.out)
	return err
}

// show shows the answers on a terminal, until a key, or ctx, ends it.
func (t *top) show(ctx context.Context, in io.Reader) (err error) {
	fd, _ := terminalOf(in)
	rates := &rates{now: time.Now}
	first := t.ask(ctx, status.MostWatches, rates)
	if first.err != nil {
		return first.err // as gapless status, and not on a screen that is gone then
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("read single keys from the terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(fd, before)) }()
	if _, err := io.WriteString(t.out, screenOpens); err != nil {
		return err
	}
	defer func() {
		_, closing := io.WriteString(t.out, screenCloses)
		err = errors.Join(err, closing)
	}()
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	answers, keys, ended := make(chan answer), make(chan key), make(chan struct{})
	defer close(ended)
	asking.Go(func() { t.askAgain(ctx, rates, answers) })
	// It ends with the key that ends top; otherwise nobody can end a read of a terminal, and the program ends before it.
	go readKeys(in, keys, ended)
	v := newView(first.report, t.interval)
	return t.react(ctx, v, events{answers, keys})
}

// askAgain asks after each interval until ctx ends.
func (t *top) askAgain(ctx context.Context, rates *rates, answers chan<- answer) {
	for {
		select {
		case <-time.After(t.interval):
		case <-ctx.Done():
			return
		}
		a := t.ask(ctx, status.MostWatches, rates)
		select {
		case answers <- a:
		case <-ctx.Done():
			return
		}
	}
}

// events are what a view reacts to.
type events struct {
	answers <-chan answer
	keys    <-chan key
}

// sizeEvery is how often it is looked whether the terminal has another size.
const sizeEvery = 250 * time.Millisecond

// react draws the view after each key and answer, until a key or ctx ends it.
func (t *top) react(ctx context.Context, v *view, e events) error {
	fd, _ := terminalOf(t.out)
	tick := time.NewTicker(sizeEvery)
	defer tick.Stop()
	for drawn := false; ; {
		width, height, err := term.GetSize(fd)
		if err != nil {
			return fmt.Errorf("read the size of the terminal: %w", err)
		}
		if resized := v.resize(width, height); resized || !drawn {
			if _, err := io.WriteString(t.out, v.draw()); err != nil {
				return err
			}
			drawn = true
		}
		select {
		case a := <-e.answers:
			v.take(a)
			drawn = false
		case k, more := <-e.keys:
			if !more || v.press(k) == ends {
				return nil
			}
			drawn = false
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
