package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

func newDemo(io streams) *cobra.Command {
	changes := 300
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show how 410 Gone stops a naive watch, and how an informer recovers from it",
		Long: `Start a server in this process with three clients: a writer, a naive watcher and
an informer. Disconnect both watchers while the writer continues, compact the
server's history, and reconnect them. At the end, compare the informer's cache with
the server's state; if they differ, the exit code is 1. No files are left behind.

On a terminal it takes a few seconds, shows moving counters, and uses colors unless
NO_COLOR is set. Elsewhere it runs at full speed and prints plain lines.`,
		Example: `  gapless demo
  gapless demo --changes 5000`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if changes < 1 {
				return &usageError{fmt.Errorf("--changes %d: want at least 1", changes)}
			}
			return demo(cmd.Context(), changes, newScreen(io.out))
		},
	}
	cmd.Flags().IntVar(&changes, "changes", changes, "number of changes in each of the three steps")
	return cmd
}

// demo runs a server and plays the scenario on it.
func demo(ctx context.Context, changes int, to *screen) error {
	s, err := gapless.New(gapless.Config{Memory: true, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	begin := time.Now()
	// demo owns it: it ends with ctx, and demo waits for it.
	go func() { ended <- s.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-s.Ready():
	}
	to.begin(time.Since(begin), s.URL())
	defer to.close()
	err = play(ctx, s, changes, to)
	stop()
	return errors.Join(err, <-ended)
}

// scenario is what the steps share.
type scenario struct {
	to       *screen
	server   *gapless.Server
	writer   *demoWriter
	naive    *naive
	network  *network // of both watchers
	informer *informer.Informer[*corev1.ConfigMap]
	received *deliveries
}

// play connects the clients, and runs the informer during the steps.
func play(ctx context.Context, s *gapless.Server, changes int, to *screen) error {
	own, err := client.New(s.RESTConfig())
	if err != nil {
		return err
	}
	defer own.CloseIdle()
	network := newNetwork()
	cfg := rest.CopyConfig(s.RESTConfig())
	cfg.Dial = network.dial
	theirs, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer theirs.CloseIdle()
	st := &scenario{
		to: to, server: s, network: network, received: &deliveries{},
		writer: newDemoWriter(own, changes, to.pace(changes)), naive: &naive{client: theirs},
	}
	defer func() { _ = st.naive.wait() }() // it was cut off
	defer network.cut()
	st.informer = informer.New(informer.For[*corev1.ConfigMap](cfg, configMaps().GroupVersionResource,
		informer.Namespace(configMaps().Namespace)),
		informer.Backoff(200*time.Millisecond, time.Second)) // a viewer waits less than a client of a server that is down
	st.informer.Handle(st.received.handle, informer.Every(heldBack, informer.Block))
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	// play owns it: it ends with ctx, and play waits for it.
	go func() { ended <- st.informer.Run(ctx) }()
	err = st.steps(ctx)
	stop()
	return errors.Join(err, <-ended)
}

func (st *scenario) steps(ctx context.Context) error {
	for i, step := range []func(context.Context) error{st.together, st.apart, st.compacted} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return st.compare(ctx)
}

// counts are the numbers of the step so far.
func (st *scenario) counts() counts {
	return counts{changes: st.writer.made(), naive: st.naive.seen(), informer: st.received.seen()}
}

// begin resets the counters, and shows them.
func (st *scenario) begin(title string) {
	st.writer.reset()
	st.naive.reset()
	st.received.reset()
	st.to.step(title, st.counts)
}

// together: both watch while the writer writes.
func (st *scenario) together(ctx context.Context) error {
	st.begin("1 Both watch.")
	if err := st.informer.WaitSynced(ctx); err != nil {
		return err
	}
	if err := st.naive.list(ctx); err != nil {
		return err
	}
	if err := st.naive.watch(ctx); err != nil {
		return err
	}
	if err := st.writer.write(ctx); err != nil {
		return err
	}
	if err := st.bothFollow(ctx); err != nil {
		return err
	}
	st.to.end(st.counts(), good("up to date"), good("up to date"))
	return nil
}

// disconnect breaks all connections of both watchers, which ends the naive watch.
func (st *scenario) disconnect() error {
	st.network.cut()
	if err := st.naive.wait(); kube.Classify(err) == kube.OutcomeExpired {
		return fmt.Errorf("the naive watch ended with %w, want a broken connection", err)
	}
	return nil
}

// apart: both are disconnected, and reconnect while the server still has the history.
func (st *scenario) apart(ctx context.Context) error {
	st.begin("2 Both are disconnected and reconnect. The server has kept its history.")
	if err := st.disconnect(); err != nil {
		return err
	}
	lists := st.informer.Status().Lists
	if err := st.writer.write(ctx); err != nil {
		return err
	}
	st.network.restore()
	if err := st.naive.watch(ctx); err != nil {
		return err
	}
	if err := st.bothFollow(ctx); err != nil {
		return err
	}
	how := good("up to date")
	if more := st.informer.Status().Lists - lists; more > 0 {
		how = bad(fmt.Sprintf("up to date, lists: %d", more))
	}
	st.to.end(st.counts(), good("up to date"), how)
	return nil
}

// compacted: both are disconnected, and the server compacts its history before they
// reconnect.
func (st *scenario) compacted(ctx context.Context) error {
	st.begin("3 Both are disconnected and reconnect. The server has compacted the history in between.")
	if err := st.disconnect(); err != nil {
		return err
	}
	if err := st.writer.write(ctx); err != nil {
		return err
	}
	if _, err := st.server.Compact(ctx, st.writer.last); err != nil {
		return err
	}
	lists := st.informer.Status().Lists
	st.network.restore()
	if err := st.naive.watch(ctx); err != nil {
		return err
	}
	expired := st.naive.wait()
	if kube.Classify(expired) != kube.OutcomeExpired {
		return fmt.Errorf("the naive watch ended with %w, want 410", expired)
	}
	if err := st.informerFollows(ctx); err != nil {
		return err
	}
	st.to.end(st.counts(), bad("410 Gone: stopped"),
		good(fmt.Sprintf("410 Gone: listed again (%d)", st.informer.Status().Lists-lists)))
	st.to.note(expired)
	return nil
}

// bothFollow waits until both have seen the last write.
func (st *scenario) bothFollow(ctx context.Context) error {
	if err := st.naive.follow(ctx, st.writer.last); err != nil {
		return fmt.Errorf("naive watcher: %w", err)
	}
	return st.informerFollows(ctx)
}

// informerFollows waits until the informer's cache has the last write, and its
// handler has received it.
func (st *scenario) informerFollows(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		at, err := kube.ParseResourceVersion(st.informer.ResourceVersion())
		return err == nil && at >= st.writer.last && st.received.equals(stateOf(st.informer)), nil
	})
}

// poll waits until done returns true.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// compare compares the state that each watcher has with the server's.
func (st *scenario) compare(ctx context.Context) error {
	is, err := listState(ctx, st.writer.client)
	if err != nil {
		return err
	}
	cached, handled := difference(stateOf(st.informer), is), difference(st.received.state(), is)
	if cached+handled > 0 {
		return fmt.Errorf(
			"the informer's cache differs from the server's state in %d objects, and its handler's in %d: this "+
				"is a bug in gapless", cached, handled)
	}
	st.to.title("Final state of each watcher")
	wrong := difference(st.naive.known(), is)
	st.to.final(len(is), bad(fmt.Sprintf("%d wrong, and stay wrong", wrong)), good("equal to the server"))
	st.to.explain(wrong)
	return nil
}
