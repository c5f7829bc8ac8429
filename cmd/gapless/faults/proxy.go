package faults

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/internal/faulthost"
	"github.com/gapless-io/gapless/internal/proxy"
)

// proxyFlags are the flags of gapless proxy.
type proxyFlags struct {
	upstream, ca        string
	kubeconfig, context string
	files, rules        []string
	listen, dir         string
	remote              bool
	seed                uint64
}

func (p Program) proxy() *cobra.Command {
	var f proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy (--upstream URL | --kubeconfig FILE) [--rules FILE]",
		Short: "Run a proxy in front of an API server that makes requests fail",
		Long: `Run a proxy in front of any API server that makes requests fail by rules, for tests.
The proxy has certificates of its own, and writes a kubeconfig.

With --upstream, callers send their own bearer token, which is passed on. With
--kubeconfig, the proxy sends all requests as the user of that file, and callers need the
proxy's own kubeconfig. Rules can be changed with that one only: gapless fault.`,
		Example: `  # the watches of a real cluster, each cut after ten events
  gapless proxy --kubeconfig ~/.kube/config --rule cut,verbs=watch,frames=10
  KUBECONFIG=gapless-proxy/kubeconfig kubectl get pods --watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runProxy(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.upstream, "upstream", "", "URL of the API server; callers' tokens are passed on")
	flags.StringVar(&f.ca, "certificate-authority", "", "file with the CA of --upstream, as PEM (default the system's)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file with the API server, and the user of all requests")
	flags.StringVar(&f.context, "context", "", "context of --kubeconfig (default the current context)")
	flags.StringArrayVar(&f.files, "rules", nil, "file with rules, as for gapless fault add -f; can be repeated")
	flags.StringArrayVar(&f.rules, "rule", nil, "rule in one line, as for gapless fault add; can be repeated")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:6444", "address to listen on; port 0 picks a free port")
	flags.StringVar(&f.dir, "dir", "gapless-proxy", "directory for the proxy's certificates and its kubeconfig")
	flags.BoolVar(&f.remote, "allow-remote", false, "allow an address that other machines can reach")
	SeedFlag(flags, &f.seed)
	return cmd
}

func (p Program) runProxy(cmd *cobra.Command, f proxyFlags) error {
	cfg := proxy.Config{
		Upstream: f.upstream, Listen: f.listen, Remote: f.remote, Dir: f.dir, Faults: NewSet(f.seed),
		Logger: slog.New(slog.NewTextHandler(p.Err, nil)),
	}
	faulthost.Of(cfg.Faults).SetNoStore()
	rules, err := p.read(f.rules, f.files)
	if err != nil {
		return err
	}
	if err := cfg.Faults.Add(rules...); err != nil {
		return p.Usage(err)
	}
	if f.ca != "" {
		if cfg.CA, err = os.ReadFile(f.ca); err != nil {
			return fmt.Errorf("read --certificate-authority: %w", err)
		}
	}
	switch {
	case (f.kubeconfig == "") == (f.upstream == ""):
		return p.Usage(errors.New("give one of --upstream and --kubeconfig"))
	case f.kubeconfig != "" && f.ca != "":
		return p.Usage(errors.New("--certificate-authority is that of --upstream; a kubeconfig names its own"))
	case f.kubeconfig == "" && f.context != "":
		return p.Usage(errors.New("--context names one of --kubeconfig: give both"))
	case f.kubeconfig != "":
		loading := &clientcmd.ClientConfigLoadingRules{ExplicitPath: f.kubeconfig}
		overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
		if cfg.User, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, overrides).ClientConfig(); err != nil {
			return fmt.Errorf("read --kubeconfig: %w", err)
		}
	}
	served, err := proxy.New(cfg)
	if err != nil {
		return p.Usage(err)
	}
	return served.Run(cmd.Context(), func(url, kubeconfig string) {
		_, _ = fmt.Fprintf(p.Out, "gapless proxy listens on %s, with %d rules and --faults-seed %d\n\n  export KUBECONFIG=%s\n",
			url, len(rules), cfg.Faults.Seed(), kubeconfig)
	})
}
