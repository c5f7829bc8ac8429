package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		Short: "Show how a naive watch dies of 410, and how an informer lives through it",
		Long: `Start a server in this process, and a writer, a naive watcher and an informer on it.
Cut both watchers off, let the writer go on, let the server forget its history,
and let both come back. At the end the informer's cache is compared with the
server's state; if they differ, the exit code is 1. Nothing is left behind.`,
		Example: `  gapless demo
  gapless demo --changes 5000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if changes < 1 {
				return &usageError{fmt.Errorf("--changes %d: want at least 1", changes)}
			}
			return demo(cmd.Context(), changes, io.out)
		},
	}
	cmd.Flags().IntVar(&changes, "changes", changes, "how many changes are made in each of the three acts")
	return cmd
}

// demo runs a server around the play.
func demo(ctx context.Context, changes int, out io.Writer) error {
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
	fmt.Fprintf(out, "A server runs in this process since %d ms, at %s.\n", time.Since(begin).Milliseconds(), s.URL())
	err = play(ctx, s, changes, out)
	stop()
	return errors.Join(err, <-ended)
}

// stage is what the acts share.
type stage struct {
	out      io.Writer
	server   *gapless.Server
	writer   *demoWriter
	naive    *naive
	line     *telephone // of both watchers
	informer *informer.Informer[*corev1.ConfigMap]
	told     *told
}

// play sets the stage, and runs the informer while the acts go on.
func play(ctx context.Context, s *gapless.Server, changes int, out io.Writer) error {
	own, err := client.New(s.RESTConfig())
	if err != nil {
		return err
	}
	defer own.CloseIdle()
	line := newTelephone()
	defer line.hangUp()
	cfg := rest.CopyConfig(s.RESTConfig())
	cfg.Dial = line.dial
	theirs, err := client.New(cfg)
	if err != nil {
		return err
	}
	defer theirs.CloseIdle()
	st := &stage{
		out: out, server: s, line: line, told: &told{},
		writer: newDemoWriter(own), naive: &naive{client: theirs},
	}
	st.informer = informer.New(informer.For[*corev1.ConfigMap](cfg, configMaps().GroupVersionResource, informer.Namespace(configMaps().Namespace)))
	st.informer.Handle(st.told.handle, informer.Every(heldBack, informer.Block))
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	// play owns it: it ends with ctx, and play waits for it.
	go func() { ended <- st.informer.Run(ctx) }()
	err = st.acts(ctx, changes)
	stop()
	return errors.Join(err, <-ended)
}

func (st *stage) say(format string, args ...any) { fmt.Fprintf(st.out, format+"\n", args...) }

func (st *stage) acts(ctx context.Context, changes int) error {
	for i, act := range []func(context.Context, int) error{st.together, st.apart, st.forgotten} {
		if err := act(ctx, changes); err != nil {
			return fmt.Errorf("act %d: %w", i+1, err)
		}
	}
	return st.proof(ctx)
}

// together: both watch while the writer writes.
func (st *stage) together(ctx context.Context, changes int) error {
	st.say("\n1. Both watch. The writer makes %d changes.", changes)
	if err := st.informer.WaitSynced(ctx); err != nil {
		return err
	}
	if err := st.naive.list(ctx); err != nil {
		return err
	}
	if err := st.naive.watch(ctx); err != nil {
		return err
	}
	if err := st.writer.write(ctx, changes); err != nil {
		return err
	}
	if err := st.bothFollow(ctx); err != nil {
		return err
	}
	st.say("   naive watcher   %5d events, at resourceVersion %s", st.naive.take(), st.naive.rv)
	st.say("   informer        %5d events, at resourceVersion %s", st.told.take(), st.informer.ResourceVersion())
	return nil
}

// apart: both are cut off, and come back while history is there.
func (st *stage) apart(ctx context.Context, changes int) error {
	st.line.hangUp()
	st.say("\n2. Both are cut off. The writer makes %d changes. They come back; the history is still there.", changes)
	if death := st.naive.died(); kube.Classify(death) == kube.OutcomeExpired {
		return fmt.Errorf("the naive watch should have ended with its connection, not with %w", death)
	}
	if err := st.writer.write(ctx, changes); err != nil {
		return err
	}
	st.line.restore()
	if err := st.naive.watch(ctx); err != nil {
		return err
	}
	if err := st.bothFollow(ctx); err != nil {
		return err
	}
	st.say("   naive watcher   %5d events: a watch goes on where it was", st.naive.take())
	st.say("   informer        %5d events, without a list", st.told.take())
	return nil
}

// forgotten: both are cut off, and history is gone when they come back.
func (st *stage) forgotten(ctx context.Context, changes int) error {
	st.line.hangUp()
	if death := st.naive.died(); kube.Classify(death) == kube.OutcomeExpired {
		return fmt.Errorf("the naive watch should have ended with its connection, not with %w", death)
	}
	if err := st.writer.write(ctx, changes); err != nil {
		return err
	}
	floor, err := st.server.Compact(ctx, st.writer.last)
	if err != nil {
		return err
	}
	st.say("\n3. Both are cut off. The writer makes %d changes. The server forgets what came before\n   resourceVersion %d, and they come back.", changes, floor)
	lists := st.informer.Status().Lists
	st.line.restore()
	if err := st.naive.watch(ctx); err != nil {
		return err
	}
	death := st.naive.died()
	if kube.Classify(death) != kube.OutcomeExpired {
		return fmt.Errorf("the naive watch should have ended with 410, not with %w", death)
	}
	st.say("   naive watcher   dead: %v", death)
	if err := st.informerFollows(ctx); err != nil {
		return err
	}
	st.say("   informer        %5d events: the difference, after %d list more", st.told.take(), st.informer.Status().Lists-lists)
	return nil
}

// bothFollow waits until both know of the last write.
func (st *stage) bothFollow(ctx context.Context) error {
	if err := st.naive.follow(st.writer.last); err != nil {
		return fmt.Errorf("naive watcher: %w", err)
	}
	return st.informerFollows(ctx)
}

// informerFollows waits until the informer's cache has the last write, and its
// handler has been told.
func (st *stage) informerFollows(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		at, err := kube.ParseResourceVersion(st.informer.ResourceVersion())
		if err == nil && at >= st.writer.last && st.told.equals(stateOf(st.informer)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// proof compares what each has with what is.
func (st *stage) proof(ctx context.Context) error {
	is, err := listState(ctx, st.writer.client)
	if err != nil {
		return err
	}
	differs := difference(st.naive.state, is)
	st.say("\nThe server has %d objects.", len(is))
	st.say("   naive watcher   %d of them are missing, stale or long deleted in its picture, and it will not learn of it", differs)
	cached, told := difference(stateOf(st.informer), is), difference(st.told.state(), is)
	if cached+told > 0 {
		return fmt.Errorf("the informer's cache differs from the server's state in %d objects, what its handler was told in %d: this is a bug in gapless", cached, told)
	}
	st.say("   informer        its cache equals the server's state, and so does what its handler was told")
	return nil
}
