// Command webhook answers admission reviews about cert-manager's kinds.
package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"github.com/cert-manager/cert-manager/internal/apis/config/webhook/validation"
	cmdutil "github.com/cert-manager/cert-manager/internal/cmd/util"
	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

func main() {
	ctx, exit := cmdutil.SetupExitHandler(context.Background(), cmdutil.GracefulShutdown)
	defer exit()
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := run(logs.NewContext(ctx, logs.Log, "webhook"), os.Args[1:]); err != nil {
		logs.Log.Error(err, "run the webhook")
		cmdutil.SetExitCode(err)
	}
}

func run(ctx context.Context, args []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	options.AddConfigFlags(flags, config)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := validation.ValidateWebhookConfiguration(config, nil).ToAggregate(); err != nil {
		return err
	}
	if err := logs.ValidateAndApply(&config.Logging); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(logs.FromContext(ctx), *config)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
