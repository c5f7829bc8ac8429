package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/cmd/gapless/inspect"
	"github.com/gapless-io/gapless/cmd/gapless/readyfile"
	"github.com/gapless-io/gapless/cmd/gapless/relay"
	"github.com/gapless-io/gapless/gaplesstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errUsage = errors.New("usage")

// run runs a command line.
func run(ctx context.Context, out io.Writer, args ...string) error {
	root := &cobra.Command{Use: "gapless", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(relay.Program{
		Out: out, Err: io.Discard,
		Usage:  func(err error) error { return errors.Join(errUsage, err) },
		Logger: func(string, string) (*slog.Logger, error) { return slog.New(slog.DiscardHandler), nil },
		Limits: func(*pflag.FlagSet, *gapless.Limits) {},
		Memory: func(context.Context, <-chan struct{}) {},
		Debug:  func(context.Context, string) (string, func(), error) { return "", func() {}, nil },
	}.Command()) //nolint:contextcheck // commands have the context of ExecuteContext
	root.AddCommand(inspect.Program{Connect: func(cmd *cobra.Command) func() (*rest.Config, error) {
		kubeconfig := cmd.Flags().String("kubeconfig", "", "")
		return func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", *kubeconfig) }
	}}.Commands()...) //nolint:contextcheck // as above
	root.SetArgs(args)
	root.SetOut(out)
	return root.ExecuteContext(ctx)
}

func TestARelayServesAClientByItsKubeconfig(t *testing.T) {
	upstream := gaplesstest.New(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("client-ca.crt"), upstream.RESTConfig().CAData, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // it ends with stop
		ended <- run(ctx, io.Discard, "relay", "--kubeconfig", upstream.Kubeconfig(), "--client-ca-file", at("client-ca.crt"),
			"--data-dir", at("data"), "--listen", "127.0.0.1:0", "--ready-file", at("ready.json"), "--resources", "configmaps")
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	}()
	ready := awaitReady(t, at("ready.json"), ended)
	var kubeconfig, shown bytes.Buffer
	if err := run(ctx, &kubeconfig, "relay", "kubeconfig", "--from", upstream.Kubeconfig(), "--server", ready.URL, "--ca",
		ready.CA); err != nil {
		t.Fatalf("run: %v", err)
	}
	if err := os.WriteFile(at("relayed"), kubeconfig.Bytes(), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", at("relayed"))
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	list, err := c.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil || list.ResourceVersion == "" {
		t.Errorf("the list through the relay: %v, %v", list, err)
	}
	if err := run(ctx, &shown, "status", "--kubeconfig", at("relayed")); err != nil ||
		!strings.Contains(shown.String(), "configmaps.v1") {
		t.Errorf("gapless status: %v\n%s", err, &shown)
	}
}

// awaitReady waits until a relay, which sends its error to ended, has written its ready file.
func awaitReady(t *testing.T, file string, ended chan error) (ready readyfile.Ready) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		body, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(body, &ready) == nil {
			return ready
		}
		if time.Now().After(deadline) {
			t.Fatalf("wait for the relay: %v", err)
		}
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("the relay has ended: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestARelayInMemoryLeavesNothingBehind(t *testing.T) {
	upstream := gaplesstest.New(t)
	kept, working := t.TempDir(), t.TempDir()
	t.Chdir(working)
	ca := filepath.Join(kept, "client-ca.crt")
	if err := os.WriteFile(ca, upstream.RESTConfig().CAData, 0o600); err != nil {
		t.Fatalf("write the CA of clients: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // it ends with stop
		ended <- run(ctx, io.Discard, "relay", "--kubeconfig", upstream.Kubeconfig(), "--client-ca-file", ca,
			"--memory", "--listen", "127.0.0.1:0", "--ready-file", filepath.Join(kept, "ready.json"))
	}()
	defer stop()
	ready := awaitReady(t, filepath.Join(kept, "ready.json"), ended)
	if _, err := os.Stat(ready.CA); err != nil {
		t.Errorf("clients cannot read the relay's CA: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("end the relay: %v", err)
	}
	if left, err := os.ReadDir(working); err != nil || len(left) > 0 {
		t.Errorf("the working directory has %v (%v), want nothing", left, err)
	}
	if _, err := os.Stat(ready.CA); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the relay's CA is left: %v", err)
	}
}

func TestManifestsAreWhatAClusterAccepts(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--resources", "pods,deployments.apps,*.example.com", "--mirror-secrets", "--replicas", "1"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), &out,
			append([]string{"relay", "manifests", "--image", "example.com/gapless:v1"}, args...)...); err != nil {
			t.Fatalf("run: %v", err)
		}
		gaplesstest.New(t).Apply(t, out.String())
	}
}

func TestBadCommandLinesAreRefused(t *testing.T) {
	upstream := gaplesstest.New(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("c2hvcnQ="), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	for _, c := range []struct{ args, want string }{
		{"relay", "--kubeconfig"},
		{"relay --kubeconfig /nonexistent", "read --kubeconfig"},
		{"relay --kubeconfig K --auth nobody", "want reviews or passthrough"},
		{"relay --kubeconfig K --shard 3/3", "want i/n"},
		{"relay --kubeconfig K --history -1h", "cannot be negative"},
		{"relay --kubeconfig K --history-bytes much", "want a number of bytes"},
		{"relay --kubeconfig K --mirror-secrets", "--secrets-key-file"},
		{"relay --kubeconfig K --mirror-secrets --secrets-key-file KEY", "want 32 bytes in base64"},
		{"relay --kubeconfig K --tls-cert-file x", "TLSPrivateKeyFile"},
		{"relay kubeconfig", "--from FILE"},
		{"relay manifests", "--image"},
		{"relay manifests --image x --storage none", "want a size"},
	} {
		args := strings.Fields(strings.NewReplacer("K ", upstream.Kubeconfig()+" ", "KEY", key).Replace(c.args))
		err := run(t.Context(), io.Discard, args...)
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("gapless %s: %v, want a usage error with %q", c.args, err, c.want)
		}
	}
}
