package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

const twoContexts = `
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://a:1"}}, {name: b, cluster: {server: "https://b:1"}}]
contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]
current-context: a
`

// given is what the flags made.
type given struct {
	gapless.RelayConfig

	log   string
	flags flags
}

// read reads a command line.
func read(t *testing.T, args ...string) (given, error) {
	t.Helper()
	var g given
	p := Program{
		Logger: func(format, level string) (*slog.Logger, error) {
			g.log = format + " " + level
			return slog.New(slog.DiscardHandler), nil
		},
		Limits: func(flags *pflag.FlagSet, l *gapless.Limits) { // the program's own test has all of them
			flags.IntVar(&l.Watches, "max-watches", 0, "")
		},
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	p.addFlags(set, &g.flags)
	if err := set.Parse(args); err != nil {
		t.Fatalf("parse set: %v", err)
	}
	var err error
	g.RelayConfig, err = p.relayConfig(g.flags)
	return g, err
}

// TestEachFlagDoesSomething sets each of them.
func TestEachFlagDoesSomething(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, key := filepath.Join(dir, "config"), filepath.Join(dir, "key")
	for path, text := range map[string]string{kubeconfig: twoContexts, key: base64.StdEncoding.EncodeToString(make([]byte, 32))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	table := map[string]struct {
		value string
		does  func(given) bool
	}{
		"kubeconfig":             {kubeconfig, func(g given) bool { return g.Upstream.Host == "https://a:1" }},
		"context":                {"b", func(g given) bool { return g.Upstream.Host == "https://b:1" }},
		"data-dir":               {"d", func(g given) bool { return g.DataDir == "d" }},
		"serve-stale":            {"true", func(g given) bool { return g.ServeStale }},
		"memory":                 {"true", func(g given) bool { return g.Memory }},
		"listen":                 {"x:1", func(g given) bool { return g.Listen == "x:1" }},
		"history":                {"3h", func(g given) bool { return g.History == 3*time.Hour }},
		"history-bytes":          {"7Mi", func(g given) bool { return g.HistoryBytes == 7<<20 }},
		"resources":              {"pods,*.x", func(g given) bool { return slices.Equal(g.Resources, []string{"pods", "*.x"}) }},
		"idle":                   {"3m", func(g given) bool { return g.Idle == 3*time.Minute }},
		"shard":                  {"1/3", func(g given) bool { return g.Shard == 1 && g.Shards == 3 }},
		"compress-upstream":      {"true", func(g given) bool { return g.CompressUpstream }},
		"mirror-secrets":         {"true", func(g given) bool { return g.MirrorSecrets }},
		"secrets-key-file":       {key, func(g given) bool { return len(g.SecretsKey) == 32 }},
		"auth":                   {"passthrough", func(g given) bool { return g.Access.Passthrough }},
		"client-ca-file":         {"ca", func(g given) bool { return g.Access.ClientCAFile == "ca" }},
		"authorization-cache":    {"0", func(g given) bool { return g.Access.Allowed < 0 && g.Access.Denied < 0 }},
		"authorization-stale":    {"1m", func(g given) bool { return g.Access.Stale == time.Minute }},
		"proxy-client-cert-file": {"c", func(g given) bool { return g.Access.FrontProxyCertFile == "c" }},
		"proxy-client-key-file":  {"k", func(g given) bool { return g.Access.FrontProxyKeyFile == "k" }},
		"tls-cert-file":          {"c", func(g given) bool { return g.TLSCertFile == "c" }},
		"tracing-config-file":    {"t", func(g given) bool { return g.TracingConfigFile == "t" }},
		"tls-private-key-file":   {"k", func(g given) bool { return g.TLSPrivateKeyFile == "k" }},
		// written: TestARelayServesAClientByItsKubeconfig
		"ready-file":       {"r", func(g given) bool { return g.flags.readyFile == "r" }},
		"debug-listen":     {"d", func(g given) bool { return g.flags.debugListen == "d" }},
		"dashboard-listen": {"127.0.0.1:0", func(g given) bool { return g.DashboardListen == "127.0.0.1:0" }},
		"max-watches":      {"7", func(g given) bool { return g.Limits.Watches == 7 }},
		"log-format":       {"json", func(g given) bool { return g.log == "json info" }},
		"log-level":        {"debug", func(g given) bool { return g.log == "text debug" }},
	}
	var f flags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	Program{
		Limits: func(flags *pflag.FlagSet, l *gapless.Limits) { flags.IntVar(&l.Watches, "max-watches", 0, "") },
	}.addFlags(set, &f)
	set.VisitAll(func(f *pflag.Flag) {
		if table[f.Name].does == nil {
			t.Errorf("nothing shows that --%s does anything", f.Name)
		}
	})
	usual := []string{"--kubeconfig", kubeconfig}
	for name, c := range table {
		args := append(slices.Clone(usual), "--"+name+"="+c.value)
		switch name {
		case "mirror-secrets":
			args = append(args, "--secrets-key-file", key)
		case "kubeconfig":
			args = args[2:]
		}
		if without, err := read(t, usual...); err != nil || name != "kubeconfig" && c.does(without) {
			t.Errorf("--%s makes no difference: %v", name, err)
		}
		if with, err := read(t, args...); err != nil || !c.does(with) {
			t.Errorf("--%s does nothing: %+v, %v", name, with.RelayConfig, err)
		}
	}
}

// TestAFlagThatWouldDoNothingIsRefused: it is said, and not ignored.
func TestAFlagThatWouldDoNothingIsRefused(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(twoContexts), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for line, want := range map[string]string{
		"--context b": "--context names one of --kubeconfig",
		"--kubeconfig " + kubeconfig + " --auth passthrough --client-ca-file x":         "--auth passthrough does not take",
		"--kubeconfig " + kubeconfig + " --auth passthrough --proxy-client-cert-file x": "--auth passthrough does not take",
		"--kubeconfig " + kubeconfig + " --auth passthrough --proxy-client-key-file x":  "--auth passthrough does not take",
	} {
		if _, err := read(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestTheDebugAddressIsServed(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(twoContexts), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	served, asked := errors.New("served"), ""
	p := Program{
		Usage:  func(err error) error { return err },
		Logger: func(string, string) (*slog.Logger, error) { return slog.New(slog.DiscardHandler), nil },
		Limits: func(*pflag.FlagSet, *gapless.Limits) {},
		Debug: func(_ context.Context, address string) (string, func(), error) {
			asked = address
			return "", func() {}, served
		},
	}
	command := p.Command()
	command.SetArgs([]string{"--kubeconfig", kubeconfig, "--memory", "--debug-listen", "127.0.0.1:0"})
	command.SilenceErrors, command.SilenceUsage = true, true
	if err := command.ExecuteContext(t.Context()); !errors.Is(err, served) || asked != "127.0.0.1:0" {
		t.Errorf("it is asked for %q: %v", asked, err)
	}
}
