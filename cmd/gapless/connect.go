package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection has the flags that name the server, as in kubectl.
type connection struct {
	kubeconfig string
	context    string
	server     string
	namespace  string
}

// addTo adds the flags to a command. -n is added by the commands that need it.
func (c *connection) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig (default the current context)")
	flags.StringVarP(&c.server, "server", "s", "", "URL of the API server (default from the kubeconfig)")
}

// restConfig returns the client's configuration, and the namespace to use.
func (c *connection) restConfig() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	overrides.ClusterInfo.Server = c.server
	overrides.Context.Namespace = c.namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	cfg, err := loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			if missing := missingFiles(rules.Precedence); len(missing) > 0 && c.kubeconfig == "" &&
				os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
				return nil, "", fmt.Errorf("read the kubeconfig: KUBECONFIG names %s, which does not exist",
					strings.Join(missing, ", "))
			}
			return nil, "", fmt.Errorf(
				"no API server configured: set KUBECONFIG (`gapless serve` prints the command), --kubeconfig or --server")
		}
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return cfg, namespace, nil
}

// missingFiles returns those of these files that do not exist: clientcmd passes over them.
func missingFiles(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, err := os.Stat(name)
		return !errors.Is(err, fs.ErrNotExist)
	})
}
