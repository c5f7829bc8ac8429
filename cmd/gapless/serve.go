package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/faults"
	"github.com/gapless-io/gapless/cmd/gapless/memory"
	"github.com/gapless-io/gapless/cmd/gapless/readyfile"
	"github.com/gapless-io/gapless/cmd/gapless/relay"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/fault/control"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/seam"
)

// serveFlags are the flags of `gapless serve`.
type serveFlags struct {
	dataDir       string
	memory        bool
	noFsync       bool
	stopAtOnce    bool
	listen        string
	history       time.Duration
	historyBytes  string
	eventTTL      time.Duration
	base          int64
	clientKey     string
	bootstrap     string
	controllers   []string
	modes         []string
	authorization gapless.Authorization
	extendTokens  bool
	from          []string
	readyFile     string
	debugListen   string
	dashboard     string
	logFormat     string
	logLevel      string
	limits        gapless.Limits
	callers       gapless.Authentication
	aggregation   gapless.Aggregation
	audit         gapless.Audit
	etcd          etcdFlags
	encryption    string
	reload        bool
	faults        bool
	faultsSeed    uint64
	faultRules    string
	ephemeral     string
	clusterIPs    []string
	nodePorts     string
	enable        []string
	disable       []string
	admission     string
	tracing       string
	notReady      int64
	unreachable   int64
}

func newServe(io streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a Kubernetes-compatible API server",
		Long: `Run a Kubernetes-compatible API server until SIGINT or SIGTERM. Then it drains:
watches get a last bookmark and end, and requests in flight finish. A second signal
stops it at once. The first start creates certificates and a kubeconfig.`,
		Example: `  # store everything in ./gapless-data, listen on port 6443
  gapless serve

  # for a test: nothing on disk, a free port, and a file with the URL
  gapless serve --memory --listen 127.0.0.1:0 --ready-file ready.json

  # with the objects of manifests, as kubectl apply -R -f reads them
  gapless serve --from manifests

  # keep a week of history, at most 10 GiB
  gapless serve --history 168h --history-bytes 10Gi

  # one of several replicas: the objects are in etcd
  gapless serve --etcd-servers http://127.0.0.1:2379 --data-dir replica-1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.etcd.compacts = cmd.Flags().Changed("etcd-compaction-interval")
			accessOf(&f, cmd.Flags())
			return serve(cmd.Context(), f, cmd.Flags().Changed("data-dir"), io)
		},
	}
	flags := cmd.Flags()
	dataFlags(flags, &f)
	flags.StringVar(&f.bootstrap, "bootstrap", "auto",
		"objects created at startup: cluster, server (those of kube-apiserver without a controller manager), none, or auto: "+
			"cluster, but over etcd without what a kube-controller-manager maintains that renews its Lease")
	flags.StringSliceVar(&f.controllers, "controllers", []string{"*"},
		"controllers to run: '*' is all, 'foo' turns foo on, '-foo' off; over etcd those that are not named stand still while "+
			"a kube-controller-manager renews its Lease; they are "+
			strings.Join(gapless.Controllers(), ", "))
	flags.StringArrayVar(&f.from, "from", nil,
		"directory or file with manifests to apply at each start, before the server is ready; can be repeated")
	flags.StringVar(&f.readyFile, "ready-file", "",
		`file to write {"url","kubeconfig","pid","debug","dashboard"} to once the server is ready`)
	addressFlags(flags, &f)
	flags.StringVar(&f.encryption, "encryption-provider-config", "",
		"file that says which resources are encrypted in the data directory, and with which keys (EncryptionConfiguration of "+
			"apiserver.config.k8s.io/v1)")
	flags.BoolVar(&f.reload, "encryption-provider-config-automatic-reload", false,
		"put changes of that file in force while the server runs")
	flags.BoolVar(&f.faults, "enable-faults", false, "let administrators make requests fail, with gapless fault: for tests only")
	faults.SeedFlag(flags, &f.faultsSeed)
	flags.StringVar(&f.faultRules, "fault-rules", "",
		"file with an answer of GET /faults: its rules are in force from the start, and go on counting")
	flags.StringVar(&f.ephemeral, "ephemeral", "",
		"directory that ends with standard input, and so with the program that holds its other end: then the server stops at "+
			"once and removes the directory, in which there must be a file named "+ephemeralMark+"; for tests only")
	tolerationFlags(flags, &f)
	f.etcd.add(flags)
	limitFlags(flags, &f.limits)
	authenticationFlags(flags, &f.callers)
	flags.BoolVar(&f.extendTokens, "service-account-extend-token-expiration", true,
		"make the tokens of pods that kubelets request for an hour valid for a year, and have them say from when on a renewed "+
			"one should be in use")
	authorizationFlags(flags, &f)
	aggregationFlags(flags, &f.aggregation)
	auditFlags(flags, &f.audit)
	flags.StringVar(&f.logFormat, "log-format", "text", "format of the log: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "minimum level of the log: debug, info, warn or error")
	return cmd
}

// addressFlags are about what else is served, besides the API.
func addressFlags(flags *pflag.FlagSet, f *serveFlags) {
	flags.StringVar(&f.debugListen, "debug-listen", "",
		"loopback address to serve /debug/pprof/ on, without authentication (default none)")
	flags.StringVar(&f.dashboard, "dashboard-listen", "",
		"address to serve a web page on that shows what is kept, what changed and who watches: without credentials on a "+
			"loopback address, otherwise, or after https://, with TLS and those of the API (default none)")
}

// dataFlags are about what is stored and where, and where the server listens.
func dataFlags(flags *pflag.FlagSet, f *serveFlags) {
	flags.StringVar(&f.dataDir, "data-dir", "gapless-data", "directory for the data, the certificates and the kubeconfig")
	flags.BoolVar(&f.memory, "memory", false, "keep all objects in memory only; without --data-dir no files are left behind")
	flags.BoolVar(&f.noFsync, "unsafe-no-fsync", false,
		"do not wait until data is on disk: a failure of the machine may damage the data directory; for tests only")
	flags.BoolVar(&f.stopAtOnce, "stop-at-once", false,
		"when told to stop, close connections as soon as no request is in progress, without a second for what clients send "+
			"meanwhile; for tests")
	flags.StringVar(&f.listen, "listen", gapless.DefaultListen, "address to listen on; port 0 picks a free port")
	flags.DurationVar(&f.history, "history", gapless.DefaultHistory, "how long old versions of objects are kept; 0 means forever")
	flags.StringVar(&f.historyBytes, "history-bytes", "",
		"maximum size of old versions, for example 512Mi; 0 means no limit (default 1Gi, or 256Mi with --memory)")
	flags.DurationVar(&f.eventTTL, "event-ttl", gapless.DefaultEventTTL,
		"how long Events are kept after their last write; 0 means forever")
	flags.Int64Var(&f.base, "resource-version-base", 0, "first resource version of an empty data directory (default 1000000000)")
	flags.StringVar(&f.clientKey, "client-key-algorithm", "",
		"algorithm of the client key in the kubeconfig: ecdsa, or rsa for fabric8 before version 7; a key of the other "+
			"algorithm is replaced (default that of the existing key, or ecdsa)")
	flags.StringSliceVar(&f.clusterIPs, "service-cluster-ip-range", nil,
		"range of which Services get their cluster IPs, or one of each IP family, the default first; a ServiceCIDR kubernetes "+
			"that is there counts instead, but new Services have the IP families of this flag "+
			"(default "+gapless.DefaultServiceClusterIPRange+")")
	flags.StringVar(&f.nodePorts, "service-node-port-range", "",
		"range of which Services get their node ports; all servers over one etcd have the same (default "+
			gapless.DefaultServiceNodePortRange+", or what others have registered)")
	flags.StringSliceVar(&f.enable, "enable-admission-plugins", nil,
		"admission plugins of kube-apiserver that are asked besides those that are by default ("+
			strings.Join(gapless.DefaultAdmissionPlugins(), ", ")+"; but without --etcd-servers not "+
			"StorageObjectInUseProtection where --controllers leaves out one that releases what it protects, nor ServiceAccount "+
			"with --bootstrap server or none), of "+
			strings.Join(gapless.AdmissionPlugins(), ", "))
	flags.StringSliceVar(&f.disable, "disable-admission-plugins", nil,
		"admission plugins that are not asked, although they are by default")
	flags.StringVar(&f.admission, "admission-control-config-file", "",
		"file with the configurations of admission plugins (AdmissionConfiguration of apiserver.config.k8s.io/v1)")
	relay.TracingFlag(flags, &f.tracing)
}

// tolerationFlags are about how long pods stay on nodes that are lost.
func tolerationFlags(flags *pflag.FlagSet, f *serveFlags) {
	flags.Int64Var(&f.notReady, "default-not-ready-toleration-seconds", gapless.DefaultTolerationSeconds,
		"how long new pods that do not say tolerate the taint node.kubernetes.io/not-ready:NoExecute")
	flags.Int64Var(&f.unreachable, "default-unreachable-toleration-seconds", gapless.DefaultTolerationSeconds,
		"how long new pods that do not say tolerate the taint node.kubernetes.io/unreachable:NoExecute")
}

// config returns the configuration that the flags describe. Its errors are usage errors.
func (f serveFlags) config(dirGiven bool, io streams) (gapless.Config, error) {
	logger, err := newLogger(io, f.logFormat, f.logLevel)
	if err != nil {
		return gapless.Config{}, err
	}
	cfg := gapless.Config{
		DataDir: f.dataDir, Memory: f.memory, Listen: f.listen, DashboardListen: f.dashboard,
		ResourceVersionBase: f.base, ClientKeyAlgorithm: f.clientKey, Logger: logger, Limits: f.limits, Audit: forever(f.audit),
		From: f.from, EnableAdmissionPlugins: f.enable, DisableAdmissionPlugins: f.disable,
		AdmissionControlConfigFile: f.admission, Controllers: f.controllers,
		DefaultNotReadyTolerationSeconds: &f.notReady, DefaultUnreachableTolerationSeconds: &f.unreachable,
		ServiceClusterIPRanges: f.clusterIPs, ServiceNodePortRange: f.nodePorts,
		AuthorizationMode:        strings.Join(f.modes, ","),
		Authorization:            f.authorization,
		Authentication:           f.callers,
		Aggregation:              f.aggregation,
		TracingConfigFile:        f.tracing,
		EncryptionProviderConfig: f.encryption, EncryptionProviderConfigAutomaticReload: f.reload,
	}
	*seam.Of(&cfg) = seam.Options{UnsafeNoFsync: f.noFsync, StopAtOnce: f.stopAtOnce}
	switch {
	case f.faults:
		cfg.Faults = faults.NewSet(f.faultsSeed)
		if err := f.continueFaults(cfg.Faults); err != nil {
			return cfg, err
		}
		logger.Warn("administrators can make requests fail: this server is for tests only",
			slog.Uint64("faults_seed", cfg.Faults.Seed()))
	case f.faultsSeed != 0:
		return cfg, errors.New("--faults-seed is for --enable-faults, which is not given")
	case f.faultRules != "":
		return cfg, errors.New("--fault-rules is for --enable-faults, which is not given")
	}
	if f.memory && !dirGiven {
		cfg.DataDir = ""
	}
	if cfg.Bootstrap, err = parseBootstrap(f.bootstrap); err != nil {
		return cfg, err
	}
	if cfg.Etcd, err = f.etcd.config(); err != nil {
		return cfg, err
	}
	if cfg.History, err = kept("history", f.history); err != nil {
		return cfg, err
	}
	if cfg.EventTTL, err = kept("event-ttl", f.eventTTL); err != nil {
		return cfg, err
	}
	if f.historyBytes != "" {
		bytes, err := resource.ParseQuantity(f.historyBytes)
		if err != nil || bytes.Sign() < 0 {
			return cfg, fmt.Errorf("--history-bytes %q: want a number of bytes like 1073741824, 512Mi or 10Gi", f.historyBytes)
		}
		switch cfg.HistoryBytes = bytes.Value(); {
		case cfg.HistoryBytes == 0:
			cfg.HistoryBytes = gapless.Forever
		case cfg.HistoryBytes < gapless.MinHistoryBytes:
			return cfg, fmt.Errorf("--history-bytes %s: want at least %s, or 0 for no limit", f.historyBytes,
				resource.NewQuantity(gapless.MinHistoryBytes, resource.BinarySI))
		}
	}
	if _, err := auth.ParseKeyAlgorithm(f.clientKey); err != nil {
		return cfg, fmt.Errorf("--client-key-algorithm %w", err)
	}
	if f.base < 0 {
		return cfg, fmt.Errorf("--resource-version-base %d: cannot be negative", f.base)
	}
	return cfg, nil
}

// kept returns how long a flag says that something is kept, for a gapless.Config: 0 is
// gapless.Forever there.
func kept(flag string, d time.Duration) (time.Duration, error) {
	switch {
	case d < 0:
		return 0, fmt.Errorf("--%s %v: cannot be negative; 0 means forever", flag, d)
	case d == 0:
		return gapless.Forever, nil
	}
	return d, nil
}

// continueFaults adds the rules of --fault-rules.
func (f serveFlags) continueFaults(to *fault.Set) error {
	if f.faultRules == "" {
		return nil
	}
	text, err := os.ReadFile(f.faultRules)
	if err != nil {
		return fmt.Errorf("--fault-rules: %w", err)
	}
	states, err := control.ReadStates(text)
	if err == nil {
		err = to.Continue(states...)
	}
	if err != nil {
		return fmt.Errorf("--fault-rules %s: %w", f.faultRules, err)
	}
	return nil
}

func parseBootstrap(text string) (gapless.Bootstrap, error) {
	switch text {
	case "auto":
		return gapless.BootstrapAuto, nil
	case "cluster":
		return gapless.BootstrapCluster, nil
	case "server":
		return gapless.BootstrapServer, nil
	case "none":
		return gapless.BootstrapNone, nil
	}
	return 0, fmt.Errorf("--bootstrap %q: want auto, cluster, server or none", text)
}

func newLogger(io streams, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(io.err, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(io.err, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", format)
}

func serve(ctx context.Context, f serveFlags, dirGiven bool, io streams) error {
	cfg, err := f.config(dirGiven, io)
	if err != nil {
		return &usageError{err}
	}
	if err := readyfile.Check(f.readyFile, cfg.DataDir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	owner, err := ownedBy(io.in, f.ephemeral)
	if err != nil {
		return &usageError{err}
	}
	s, err := gapless.New(cfg)
	if err != nil {
		return &usageError{err}
	}
	debug, err := startDebug(ctx, f.debugListen)
	if err != nil {
		return err
	}
	defer debug.stop()
	if cfg.Faults != nil {
		defer context.AfterFunc(ctx, cfg.Faults.Clear)() // what is silent or waits ends with the server
	}
	done := make(chan error, 1)
	// serve owns both: they end with ctx, and serve waits for the server.
	go func() { done <- s.Run(ctx) }()
	go memory.GiveBack(ctx, s.Ready())
	select {
	case err := <-done:
		return err
	case <-owner.gone:
		cancel(errOwnerGone)
		return owner.remove(done)
	case <-s.Ready():
	}
	announce(io, s, f, cfg)
	if f.readyFile != "" {
		if err := readyfile.Write(f.readyFile, readyfile.Ready{
			URL: s.URL(), Kubeconfig: s.Kubeconfig(), Debug: debug.address(), Dashboard: s.DashboardURL(),
		}); err != nil {
			cancel(err)
			return errors.Join(fmt.Errorf("write --ready-file: %w", err), <-done)
		}
		defer func() { _ = os.Remove(f.readyFile) }() // it may be gone already
	}
	select {
	case err := <-done:
		return err
	case <-owner.gone:
		cancel(errOwnerGone)
		return owner.remove(done)
	}
}

// announce prints where the server listens and how to connect to it.
func announce(io streams, s *gapless.Server, f serveFlags, cfg gapless.Config) {
	where := "memory (lost when the server stops)"
	if !cfg.Memory {
		where = f.dataDir
		if abs, err := filepath.Abs(where); err == nil {
			where = abs
		}
	}
	if servers := cfg.Etcd.Servers; len(servers) > 0 {
		at := []string{"etcd at " + strings.Join(servers, ", ")}
		for _, o := range cfg.Etcd.Overrides {
			at = append(at, o.String()+" at "+strings.Join(o.Servers, ", "))
		}
		where = strings.Join(at, "; ") + "; the history of this replica in " + where
	}
	age, bytes := "forever", "any size"
	if f.history > 0 {
		age = shortDuration(f.history)
	}
	switch {
	case cfg.HistoryBytes < 0:
	case f.historyBytes != "":
		bytes = f.historyBytes + "B"
	case cfg.Memory:
		bytes = resource.NewQuantity(gapless.DefaultMemoryHistoryBytes, resource.BinarySI).String() + "B"
	default:
		bytes = resource.NewQuantity(gapless.DefaultHistoryBytes, resource.BinarySI).String() + "B"
	}
	io.printf(`gapless serves the Kubernetes API at %s
  data     %s
  history  %s, at most %s
%s%s%s
  export KUBECONFIG=%s
`, s.URL(), where, age, bytes, manifestsLine(s.Applied()), dashboardLine(s.DashboardURL()), faultsLine(cfg), s.Kubeconfig())
}

// manifestsLine says what the start did with manifests; "" if there were none.
func manifestsLine(a gapless.Applied) string {
	if a.Files == 0 {
		return ""
	}
	return fmt.Sprintf("  objects  %d created, %d updated, %d unchanged, from %d files\n",
		a.Created, a.Updated, a.Unchanged, a.Files)
}

// dashboardLine says where the dashboard is; "" if there is none.
func dashboardLine(url string) string {
	if url == "" {
		return ""
	}
	return "  page     " + url + "\n"
}

// faultsLine says how the run is repeated; "" without faults.
func faultsLine(cfg gapless.Config) string {
	if cfg.Faults == nil {
		return ""
	}
	return fmt.Sprintf("  faults   on demand, with --faults-seed %d\n", cfg.Faults.Seed())
}

// shortDuration leaves out the zeros at the end: 24h instead of 24h0m0s.
func shortDuration(d time.Duration) string {
	text := strings.TrimSuffix(d.String(), "0s")
	if trimmed := strings.TrimSuffix(text, "0m"); trimmed != text && strings.HasSuffix(trimmed, "h") {
		text = trimmed
	}
	if text == "" || strings.HasSuffix(text, ".") || text[len(text)-1] <= '9' {
		return d.String()
	}
	return text
}
