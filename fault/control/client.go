package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/fault"
)

// Client changes the rules of a server. HTTP has the credentials of an administrator.
type Client struct {
	// URL is the server's, without a path.
	URL  string
	HTTP *http.Client
}

// List returns the rules that are in force.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	return c.do(ctx, http.MethodGet, "", nil)
}

// Add adds rules, and returns all that are then in force. If one is wrong, none is added.
func (c *Client) Add(ctx context.Context, rules ...fault.Rule) ([]Entry, error) {
	body, err := json.Marshal(rules)
	if err != nil {
		return nil, fmt.Errorf("write the rules: %w", err)
	}
	return c.do(ctx, http.MethodPost, "", body)
}

// Remove removes the rule with a name, and returns those that remain.
func (c *Client) Remove(ctx context.Context, name string) ([]Entry, error) {
	if name == "" { // its path would be that of all rules
		return nil, errors.New("the name of the rule is empty")
	}
	return c.do(ctx, http.MethodDelete, "/"+url.PathEscape(name), nil)
}

// Clear removes all rules.
func (c *Client) Clear(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "", nil)
	return err
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) ([]Entry, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+fault.AdminPath+path,
		bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("address of the server: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reach the server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	const most = 16 << 20
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		var all entries
		if err := json.Unmarshal(answer, &all); err != nil {
			return nil, fmt.Errorf("%s answered %.200q, which are no rules: %w", c.URL, answer, err)
		}
		return all.Rules, nil
	}
	var status metav1.Status
	if err := json.Unmarshal(answer, &status); err != nil || status.Message == "" {
		return nil, fmt.Errorf("%s answered %s to %s %s%s: does it serve faults (gapless serve --enable-faults, gapless proxy)?",
			c.URL, resp.Status, method, fault.AdminPath, path)
	}
	if resp.StatusCode == http.StatusNotFound && (status.Details == nil || status.Details.Kind != "faults") {
		return nil, fmt.Errorf("%s serves no faults: start it with gapless serve --enable-faults, or use gapless proxy", c.URL)
	}
	return nil, errors.New(status.Message)
}
