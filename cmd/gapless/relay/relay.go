// Package relay is the commands of the relay: gapless relay, and those below it.
//
// A [Program] is what the commands need of the program around them.
package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/readyfile"
	"github.com/gapless-io/gapless/internal/scratch"
)

// Program is what the commands need of the program around them.
type Program struct {
	Out, Err io.Writer
	// Usage marks an error as one of the command line.
	Usage func(error) error
	// Logger returns the logger that the flags --log-format and --log-level describe.
	Logger func(format, level string) (*slog.Logger, error)
	// Limits adds the flags of limits.
	Limits func(*pflag.FlagSet, *gapless.Limits)
	// Memory gives memory back to the system from when ready is closed until ctx ends.
	Memory func(ctx context.Context, ready <-chan struct{})
	// Debug serves the profiles at an address; "": it does nothing.
	Debug func(ctx context.Context, address string) (url string, stop func(), err error)
}

// flags are those of gapless relay.
type flags struct {
	kubeconfig, context string
	dataDir             string
	memory              bool
	listen              string
	history             time.Duration
	historyBytes        string
	resources           []string
	idle                time.Duration
	secrets             bool
	shard               string
	secretsKey          string
	auth                string
	allowed, stale      time.Duration
	readyFile           string
	debugListen         string
	logFormat, logLevel string
	config              gapless.RelayConfig
}

// Command returns the command with those below it.
func (p Program) Command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "relay --kubeconfig FILE",
		Short: "Mirror an API server, and serve its lists and watches with hours of history",
		Long: `Mirror an API server, and serve its lists and watches with hours of history, under the
API server's own resourceVersions. All other requests are passed on. Clients use their own
credentials for the API server: gapless relay kubeconfig writes the kubeconfig.

The relay lists and watches each resource once, from its first reader on. A client that
reconnects with an old resourceVersion resumes from the relay's history; one that asks for the
most recent state gets it. When the API server is away, watches go on, and so do lists with
resourceVersion=0, for callers that the relay knows; also after the relay was started again.
Lists of the most recent state, which is what kubectl get asks for, are refused then, unless
--serve-stale is set. docs/relay.md says what it costs and guarantees.`,
		Example: `  # mirror what the clients read, with a day of history
  gapless relay --kubeconfig ~/.kube/config

  # a client of it
  gapless relay kubeconfig --from ~/.kube/config > relayed
  kubectl --kubeconfig relayed get pods --watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if f.memory && !cmd.Flags().Changed("data-dir") {
				own, making := scratch.Make("relay")
				if making != nil {
					return making
				}
				defer func() { err = errors.Join(err, own.Remove()) }()
				f.dataDir = filepath.Join(own.Path(), "data")
			}
			return p.run(cmd.Context(), f)
		},
	}
	p.addFlags(cmd.Flags(), &f)
	cmd.AddCommand(p.manifests(), p.clientConfig())
	return cmd
}

func (p Program) addFlags(flags *pflag.FlagSet, f *flags) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig file with the API server and the relay's own user (default the service account of the pod)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default the current context)")
	flags.StringVar(&f.dataDir, "data-dir", "gapless-relay",
		"directory for the history and the certificates; with --memory the default is a temporary one")
	flags.BoolVar(&f.memory, "memory", false,
		"keep the history in memory only; without --data-dir the certificates, too, are gone when the relay ends")
	flags.StringVar(&f.listen, "listen", gapless.DefaultRelayListen, "address to listen on; port 0 picks a free port")
	flags.DurationVar(&f.history, "history", gapless.DefaultHistory, "how long old versions of objects are kept; 0 means forever")
	flags.StringVar(&f.historyBytes, "history-bytes", "",
		"maximum size of old versions, for example 512Mi; 0 means no limit (default 1Gi, or 256Mi with --memory)")
	flags.StringSliceVar(&f.resources, "resources", nil,
		"resources to mirror from the start: pods, deployments.apps, deployments.v1.apps, '*.example.com' or '*'; others are "+
			"mirrored from their first reader on")
	flags.DurationVar(&f.idle, "idle", 0, "how long a resource is mirrored after its last reader has left (default 10m)")
	flags.StringVar(&f.shard, "shard", "",
		"i/n: mirror only the resources of the i-th of n relays, from 0, and pass the others through")
	flags.BoolVar(&f.config.CompressUpstream, "compress-upstream", false,
		"ask the API server to compress the lists that are mirrored, which costs it CPU (for a slow network)")
	flags.BoolVar(&f.secrets, "mirror-secrets", false,
		"mirror Secrets too, encrypted with --secrets-key-file; otherwise they are passed through")
	flags.StringVar(&f.secretsKey, "secrets-key-file", "",
		"file with the key by which mirrored Secrets are encrypted on the disk: 32 bytes in base64 (head -c 32 "+
			"/dev/urandom | base64)")
	flags.StringVar(&f.auth, "auth", "reviews",
		"how callers are known: reviews (TokenReview and SubjectAccessReview at the API server) or passthrough (a small "+
			"request with their own token)")
	flags.StringVar(&f.config.Access.ClientCAFile, "client-ca-file", "",
		"CAs of the clients' certificates (default those that the API server publishes in kube-system)")
	flags.DurationVar(&f.allowed, "authorization-cache", 10*time.Second,
		"how long decisions of the API server are used; open watches are checked again after that; 0 means not at all")
	flags.DurationVar(&f.stale, "authorization-stale", 5*time.Minute,
		"how long decisions are used while the API server cannot be reached; 0 means not at all")
	flags.BoolVar(&f.config.ServeStale, "serve-stale", false,
		"serve lists of the most recent state also when the API server cannot be asked what that is: the last known state, "+
			"with a Warning header that says how old it is")
	flags.StringVar(&f.config.Access.FrontProxyCertFile, "proxy-client-cert-file", "",
		"client certificate by which the API server trusts the relay to name users (default callers with "+
			"certificates are impersonated)")
	flags.StringVar(&f.config.Access.FrontProxyKeyFile, "proxy-client-key-file", "", "its private key")
	flags.StringVar(&f.config.TLSCertFile, "tls-cert-file", "", "serving certificate (default one of the relay's own CA)")
	flags.StringVar(&f.config.TLSPrivateKeyFile, "tls-private-key-file", "", "its private key")
	flags.StringVar(&f.readyFile, "ready-file", "",
		`file to write {"url","ca","pid","debug","dashboard"} to once the relay accepts requests`)
	flags.StringVar(&f.debugListen, "debug-listen", "",
		"loopback address to serve /debug/pprof/ on, without authentication (default none)")
	TracingFlag(flags, &f.config.TracingConfigFile)
	flags.StringVar(&f.config.DashboardListen, "dashboard-listen", "",
		"address to serve a web page on that shows what is mirrored, what changed and who watches: without credentials on a "+
			"loopback address, otherwise, or after https://, with TLS and those of the API (default none)")
	p.Limits(flags, &f.config.Limits)
	flags.StringVar(&f.logFormat, "log-format", "text", "format of the log: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "minimum level of the log: debug, info, warn or error")
}

// TracingFlag adds the flag --tracing-config-file, which gapless serve has too.
func TracingFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "tracing-config-file", "",
		"file that says where traces of requests are sent, and of how many (TracingConfiguration of apiserver.config.k8s.io/v1)")
}

// relayConfig returns the configuration that the flags describe. Its errors are usage errors.
func (p Program) relayConfig(f flags) (gapless.RelayConfig, error) {
	cfg := f.config
	var err error
	if cfg.Logger, err = p.Logger(f.logFormat, f.logLevel); err != nil {
		return cfg, err
	}
	if f.context != "" && f.kubeconfig == "" {
		return cfg, errors.New("--context names one of --kubeconfig: give both")
	}
	if cfg.Upstream, err = upstream(f.kubeconfig, f.context); err != nil {
		return cfg, err
	}
	cfg.DataDir, cfg.Memory, cfg.Listen, cfg.History = f.dataDir, f.memory, f.listen, f.history
	cfg.Resources, cfg.Idle, cfg.MirrorSecrets = f.resources, f.idle, f.secrets
	if f.secretsKey != "" {
		if cfg.SecretsKey, err = readKey(f.secretsKey); err != nil {
			return cfg, err
		}
	}
	if f.secrets && !f.memory && f.secretsKey == "" {
		return cfg, errors.New(
			"--mirror-secrets needs --secrets-key-file, so that Secrets are not on the disk as plain text; or --memory")
	}
	if f.shard != "" {
		if cfg.Shard, cfg.Shards, err = parseShard(f.shard); err != nil {
			return cfg, err
		}
	}
	switch f.auth {
	case "reviews":
	case "passthrough":
		cfg.Access.Passthrough = true
		if cfg.Access.ClientCAFile != "" || cfg.Access.FrontProxyCertFile != "" || cfg.Access.FrontProxyKeyFile != "" {
			return cfg, errors.New(
				"--client-ca-file, --proxy-client-cert-file and --proxy-client-key-file are for clients with certificates, " +
					"which --auth passthrough does not take")
		}
	default:
		return cfg, fmt.Errorf("--auth %q: want reviews or passthrough", f.auth)
	}
	cfg.Access.Allowed, cfg.Access.Denied, cfg.Access.Stale = none(f.allowed), none(f.allowed), none(f.stale)
	if f.history < 0 || f.idle < 0 || f.allowed < 0 || f.stale < 0 {
		return cfg, errors.New("--history, --idle, --authorization-cache and --authorization-stale cannot be negative")
	}
	if f.history == 0 {
		cfg.History = gapless.Forever
	}
	if f.historyBytes != "" {
		bytes, err := resource.ParseQuantity(f.historyBytes)
		if err != nil || bytes.Sign() < 0 {
			return cfg, fmt.Errorf("--history-bytes %q: want a number of bytes like 1073741824, 512Mi or 10Gi", f.historyBytes)
		}
		if cfg.HistoryBytes = bytes.Value(); cfg.HistoryBytes == 0 {
			cfg.HistoryBytes = gapless.Forever
		}
	}
	return cfg, nil
}

// readKey reads a key in base64.
func readKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --secrets-key-file: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("--secrets-key-file %s: want 32 bytes in base64", path)
	}
	return key, nil
}

// parseShard reads "i/n".
func parseShard(text string) (shard, shards int, err error) {
	first, second, _ := strings.Cut(text, "/")
	shard, errFirst := strconv.Atoi(first)
	shards, errSecond := strconv.Atoi(second)
	if errFirst != nil || errSecond != nil || shards < 1 || shard < 0 || shard >= shards {
		return 0, 0, fmt.Errorf("--shard %q: want i/n with i from 0 to n-1, like 0/3", text)
	}
	return shard, shards, nil
}

// none makes 0 of a flag what means "not at all" in the configuration.
func none(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// upstream returns the API server and the relay's own credentials.
func upstream(kubeconfig, context string) (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if kubeconfig == "" {
		if cfg, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("name the API server by --kubeconfig, or run in a pod: %w", err)
		}
	} else {
		loading := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
		overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
		if cfg, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, overrides).ClientConfig(); err != nil {
			return nil, fmt.Errorf("read --kubeconfig: %w", err)
		}
	}
	cfg.UserAgent = "gapless-relay/" + gapless.Version().GitVersion
	return cfg, nil
}

func (p Program) run(ctx context.Context, f flags) error {
	cfg, err := p.relayConfig(f)
	if err != nil {
		return p.Usage(err)
	}
	if err := readyfile.Check(f.readyFile, cfg.DataDir); err != nil {
		return err
	}
	r, err := gapless.NewRelay(cfg)
	if err != nil {
		return p.Usage(err)
	}
	debug, stopDebug, err := p.Debug(ctx, f.debugListen)
	if err != nil {
		return err
	}
	defer stopDebug()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	// run owns both: they end with ctx, and run waits for the relay.
	go func() { done <- r.Run(ctx) }()
	go p.Memory(ctx, r.Ready())
	select {
	case err := <-done:
		return err
	case <-r.Ready():
	}
	ca := filepath.Join(f.dataDir, "pki", "ca.crt")
	if absolute, err := filepath.Abs(ca); err == nil {
		ca = absolute
	}
	_, _ = fmt.Fprintf(p.Out, "gapless relays %s at %s\n\n  gapless relay kubeconfig --from FILE --server %s --ca %s > relayed\n",
		cfg.Upstream.Host, r.URL(), r.URL(), ca)
	if url := r.DashboardURL(); url != "" {
		_, _ = fmt.Fprintf(p.Out, "\n  page     %s\n", url)
	}
	if f.readyFile != "" {
		if err := readyfile.Write(f.readyFile, readyfile.Ready{
			URL: r.URL(), CA: ca, Debug: debug, Dashboard: r.DashboardURL(),
		}); err != nil {
			cancel(err)
			return errors.Join(fmt.Errorf("write --ready-file: %w", err), <-done)
		}
		defer func() { _ = os.Remove(f.readyFile) }() // it may be gone already
	}
	return <-done
}
