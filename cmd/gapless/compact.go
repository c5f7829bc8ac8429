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

	"github.com/gapless-io/gapless/cmd/gapless/progress"
	"github.com/gapless-io/gapless/kube"
)

// compactPath is where an administrator compacts history.
const compactPath = "/gapless/v1/compact"

func newCompact(io streams) *cobra.Command {
	var c connection
	var olderThan time.Duration
	var to string
	var purge, quiet bool
	cmd := &cobra.Command{
		Use:   "compact (--older-than DURATION | --to RESOURCEVERSION)",
		Short: "Compact the history of a gapless server now",
		Long: `Compact the history of a gapless server now: remove old versions of objects, and
deletions. Current objects stay. A watch that resumes from a resourceVersion whose
history was removed gets 410 Gone.`,
		Example: `  # remove versions that were superseded more than ten minutes ago
  gapless compact --older-than 10m

  # remove the whole history
  gapless compact --older-than 0s

  # the same, and leave nothing of it in the files, as after encrypting Secrets
  gapless compact --older-than 0s --purge

  # remove the history up to a resource version
  gapless compact --to 1000000123`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request := map[string]any{}
			switch {
			case (to == "") != cmd.Flags().Changed("older-than"):
				return &usageError{errors.New("give one of --older-than and --to")}
			case olderThan < 0:
				return &usageError{fmt.Errorf("--older-than %v: cannot be negative", olderThan)}
			case to != "":
				if v, err := kube.ParseResourceVersion(to); err != nil || v == 0 {
					return &usageError{fmt.Errorf("--to %q: want a resource version, a number like 1000000123", to)}
				}
				request["upTo"] = to
			default:
				request["olderThan"] = max(olderThan, 1).String() // 0: all there is
			}
			if purge {
				request["purge"] = true
			}
			cfg, _, err := c.restConfig()
			if err != nil {
				return err
			}
			var done compacted
			if err := progress.Wait(io.quieted(quiet).err, "compacting", func() (err error) {
				done, err = compact(cmd.Context(), cfg, request)
				return err
			}); err != nil {
				return err
			}
			io.printf("compacted the history up to resourceVersion %s\n", done.Compacted)
			io.printf("freed %s of old versions; the log is %s smaller\n", shortBytes(done.History), shortBytes(done.Log))
			return nil
		},
	}
	c.addTo(cmd)
	cmd.Flags().DurationVar(&olderThan, "older-than", 0, "remove versions that were superseded or deleted longer ago than this")
	cmd.Flags().StringVar(&to, "to", "", "remove versions that were superseded or deleted at or below this resource version")
	cmd.Flags().BoolVar(&purge, "purge", false,
		"also remove what is compacted from the files of the log now, as after encrypting objects; writes all objects again")
	quietFlag(cmd.Flags(), &quiet)
	return cmd
}

// compacted is the response of the server.
type compacted struct {
	Compacted string `json:"compacted"` // the resource version up to which history is removed
	History   int64  `json:"freedHistoryBytes"`
	Log       int64  `json:"freedLogBytes"`
}

// shortBytes formats a number of bytes: 12 MiB.
func shortBytes(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 || value >= 10 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// compact sends the request to the server.
func compact(ctx context.Context, cfg *rest.Config, request map[string]any) (compacted, error) {
	var out compacted
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return out, fmt.Errorf("set up the connection: %w", err)
	}
	defer web.CloseIdleConnections()
	resp, err := post(ctx, web, strings.TrimSuffix(cfg.Host, "/")+compactPath, request)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	response, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return out, fmt.Errorf("read the response: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return out, refusal(resp, response, compactPath)
	}
	if err := json.Unmarshal(response, &out); err != nil || out.Compacted == "" {
		return out, fmt.Errorf("%s answered %q, which is not the response of a gapless server", cfg.Host, response)
	}
	return out, nil
}

// post sends a request with a body in JSON. The caller closes the body of the response.
func post(ctx context.Context, web *http.Client, url string, request any) (*http.Response, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	return resp, nil
}

// refusal returns the error that the server sent for a path.
func refusal(resp *http.Response, body []byte, path string) error {
	var status metav1.Status
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("the server has no %s: it is not a gapless server, or an older one", path)
	case json.Unmarshal(body, &status) == nil && status.Message != "":
		return fmt.Errorf("the server refused: %s", status.Message)
	}
	return fmt.Errorf("the server refused: %s", resp.Status)
}
