package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connection is how a command finds its server: kubectl's flags.
type connection struct {
	kubeconfig string
	context    string
	server     string
	namespace  string
}

// addTo adds the flags to a command; -n only where it is about namespaces.
func (c *connection) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "context of the kubeconfig (default its current one)")
	flags.StringVarP(&c.server, "server", "s", "", "URL of the API server, instead of the kubeconfig's")
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
			return nil, "", fmt.Errorf("no API server is known: set KUBECONFIG (`gapless serve` prints the line) or give --kubeconfig or --server")
		}
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	return cfg, namespace, nil
}
