package relay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/gapless-io/gapless"
)

// clientConfig is gapless relay kubeconfig.
func (p Program) clientConfig() *cobra.Command {
	var from, context, server, ca string
	cmd := &cobra.Command{
		Use:   "kubeconfig --from FILE",
		Short: "Write a client's kubeconfig for the relay",
		Long: `Write a kubeconfig like another one, with the relay in the place of the API server. The
client keeps its user and its credentials, which the API server knows.`,
		Example: `  gapless relay kubeconfig --from ~/.kube/config > relayed`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return p.Usage(errors.New("name the client's kubeconfig for the API server: --from FILE"))
			}
			config, err := relayed(from, context, server, ca)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(config)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the client's kubeconfig for the API server")
	flags.StringVar(&context, "context", "", "its context (default the current context)")
	flags.StringVar(&server, "server", "https://"+gapless.DefaultRelayListen, "URL of the relay")
	flags.StringVar(&ca, "ca", filepath.Join("gapless-relay", "pki", "ca.crt"),
		`CA of the relay's certificate; "" for one that the system trusts`)
	return cmd
}

// relayed returns a kubeconfig for the relay: one context of another kubeconfig, with what its
// files hold in it.
func relayed(from, context, server, ca string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return nil, fmt.Errorf("read --from: %w", err)
	}
	if context != "" {
		config.CurrentContext = context
	}
	if err := errors.Join(clientcmd.ResolveLocalPaths(config), api.MinifyConfig(config)); err != nil {
		return nil, fmt.Errorf("the context of %s: %w", from, err)
	}
	if err := api.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("the files that %s names: %w", from, err)
	}
	cluster := api.NewCluster()
	cluster.Server = server
	if ca != "" {
		if cluster.CertificateAuthorityData, err = os.ReadFile(ca); err != nil {
			return nil, fmt.Errorf("read --ca: %w", err)
		}
	}
	config.Clusters = map[string]*api.Cluster{config.Contexts[config.CurrentContext].Cluster: cluster}
	return clientcmd.Write(*config)
}
