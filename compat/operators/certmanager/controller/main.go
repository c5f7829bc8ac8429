// Command controller issues certificates.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	cmdutil "github.com/cert-manager/cert-manager/internal/cmd/util"
	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"   // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"         // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned" // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"           // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"        // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"           // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"         // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"    // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"   // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"           // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"                 // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"                        // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"                                 // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"                         // registers itself
	"github.com/cert-manager/cert-manager/pkg/logs"
)

func main() {
	ctx, exit := cmdutil.SetupExitHandler(context.Background(), cmdutil.GracefulShutdown)
	defer exit()
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := run(logs.NewContext(ctx, logs.Log, "controller"), os.Args[1:]); err != nil {
		logs.Log.Error(err, "run the controllers")
		cmdutil.SetExitCode(err)
	}
}

func run(ctx context.Context, args []string) error {
	flags := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "path of the kubeconfig")
	resources := flags.String("cluster-resource-namespace", "kube-system", "namespace of the Secrets of ClusterIssuers")
	namespace := flags.String("leader-election-namespace", "kube-system", "namespace of the Lease")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// The numbers are cert-manager's defaults: internal/apis/config/controller/v1alpha1/defaults.go.
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: *kubeconfig, KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: *resources},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes: []string{
				"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/",
			},
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return fmt.Errorf("make the clients: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	elected := make(chan struct{})
	group.Go(func() error { return lead(ctx, factory, *namespace, func() { close(elected) }) })
	select {
	case <-elected:
		if err := start(ctx, group, factory); err != nil {
			return err
		}
	case <-ctx.Done():
	}
	return group.Wait()
}

// start starts every controller that is registered, and then the informers that they share.
func start(ctx context.Context, group *errgroup.Group, factory *controller.ContextFactory) error {
	const workers = 5 // of each, cert-manager's default
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return fmt.Errorf("make the controller %s: %w", name, err)
		}
		group.Go(func() error { return c.Run(workers, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	return nil
}

// lead calls leading as soon as this process holds the Lease, and returns when it holds it no
// longer.
func lead(ctx context.Context, factory *controller.ContextFactory, namespace string, leading func()) error {
	c, err := factory.Build("leader-election")
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "cert-manager-controller", c.Client.CoreV1(),
		c.Client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "-external-cert-manager-controller", EventRecorder: c.Recorder})
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: 15 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leading() }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		return errors.New("the Lease is lost")
	}
	return nil
}
