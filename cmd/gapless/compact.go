package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func newCompact(io streams) *cobra.Command {
	var c connection
	var olderThan time.Duration
	var to string
	cmd := &cobra.Command{
		Use:   "compact (--older-than DURATION | --to RESOURCEVERSION)",
		Short: "Make a gapless server forget history now",
		Long: `Make a gapless server forget history now: old versions of objects, and deletions.
What is current stays. A watch that comes back with a resourceVersion from
before, and that needs something that was forgotten, gets 410 Gone.`,
		Example: `  # forget what was superseded more than ten minutes ago
  gapless compact --older-than 10m

  # forget everything that can be forgotten
  gapless compact --older-than 0s

  # forget everything up to a resource version
  gapless compact --to 1000000123`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request := map[string]string{}
			switch {
			case (to == "") != cmd.Flags().Changed("older-than"):
				return &usageError{errors.New("give one of --older-than and --to")}
			case olderThan < 0:
				return &usageError{fmt.Errorf("--older-than %v: it cannot be negative", olderThan)}
			case to != "":
				request["upTo"] = to
			default:
				request["olderThan"] = max(olderThan, 1).String() // 0: all there is
			}
			cfg, _, err := c.restConfig()
			if err != nil {
				return err
			}
			done, err := compact(cmd.Context(), cfg, request)
			if err != nil {
				return err
			}
			io.printf("history up to resourceVersion %s is forgotten\n", done)
			return nil
		},
	}
	c.addTo(cmd)
	cmd.Flags().DurationVar(&olderThan, "older-than", 0, "forget what was superseded or deleted longer ago than this")
	cmd.Flags().StringVar(&to, "to", "", "forget what was superseded or deleted at or below this resource version")
	return cmd
}

// compact asks the server, and returns up to where it has forgotten.
func compact(ctx context.Context, cfg *rest.Config, request map[string]string) (string, error) {
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return "", fmt.Errorf("set up the connection: %w", err)
	}
	defer web.CloseIdleConnections()
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(cfg.Host, "/")+"/gapless/v1/compact", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("server address: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		return "", fmt.Errorf("reach the server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", refusal(resp, answer)
	}
	var out struct {
		Compacted string `json:"compacted"`
	}
	if err := json.Unmarshal(answer, &out); err != nil || out.Compacted == "" {
		return "", fmt.Errorf("%s answered %q, which is not what a gapless server answers", cfg.Host, answer)
	}
	return out.Compacted, nil
}

// refusal is what the server said, and what to do about it.
func refusal(resp *http.Response, body []byte) error {
	var status metav1.Status
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errors.New("the server does not know how to compact: it is not a gapless server")
	case json.Unmarshal(body, &status) == nil && status.Message != "":
		return fmt.Errorf("the server refused: %s", status.Message)
	}
	return fmt.Errorf("the server refused: %s", resp.Status)
}
