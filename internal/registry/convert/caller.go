package convert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/schema"
)

const (
	// timeout is how long a review may take, with the wait for others to end: apiserver
	// util/webhook/authentication.go setGlobalDefaults.
	timeout = 30 * time.Second
	// retries is how often a review is repeated for an answer with Retry-After: client-go
	// rest.Request maxRetries.
	retries = 10
	// maxAnswer bounds an answer, in bytes: four objects of the largest size. Upstream has no
	// bound.
	maxAnswer = 4 * schema.MaxObjectBytes
	// reviewers bounds the reviews of one webhook at a time; more wait.
	reviewers = 16
	// maxCallers bounds the webhooks to which there are connections.
	maxCallers = 64
	// maxText is how much of an answer an error quotes: client-go
	// rest.maxUnstructuredResponseTextBytes.
	maxText = 2048
)

// caller posts reviews to one webhook.
type caller struct {
	url    string
	client *http.Client
	slots  chan struct{} // holds one token for each review under way
	broken error         // of a configuration that cannot be used
}

// callerOf returns the caller of a webhook.
func (c *Converter) callerOf(w *schema.Webhook) *caller {
	key := w.Identity()
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.callers[key]; known != nil {
		return known
	}
	if len(c.order) == maxCallers {
		oldest := c.order[0]
		c.order = append(c.order[:0], c.order[1:]...)
		c.callers[oldest].client.CloseIdleConnections()
		delete(c.callers, oldest)
	}
	made := c.newCaller(w)
	c.callers[key] = made
	c.order = append(c.order, key)
	return made
}

func (c *Converter) newCaller(w *schema.Webhook) *caller {
	k := &caller{slots: make(chan struct{}, reviewers)}
	dial := (&net.Dialer{}).DialContext
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: reviewers, IdleConnTimeout: 90 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	k.client = &http.Client{Transport: transport}
	if ca := bytes.TrimSpace(w.CABundle); len(ca) > 0 {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(ca) {
			k.broken = errors.New("unable to load root certificates: unable to parse bytes as PEM block")
			return k
		}
	}
	at := url.URL{Scheme: "https"}
	if s := w.Service; s != nil {
		name := s.Name + "." + s.Namespace + ".svc"
		at.Host, at.Path = net.JoinHostPort(name, strconv.Itoa(int(s.Port))), s.Path
		transport.Proxy = nil
		transport.TLSClientConfig.ServerName = name
		transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == at.Host {
				var err error
				if addr, err = resolve(c.cluster, s); err != nil {
					return nil, err
				}
			}
			return dial(ctx, network, addr)
		}
	} else {
		given, err := url.Parse(w.URL)
		if err != nil {
			k.broken = fmt.Errorf("unparsable URL: %w", err)
			return k
		}
		at.Scheme, at.Host, at.Path = given.Scheme, given.Host, given.Path
	}
	at.RawQuery = url.Values{"timeout": {timeout.String()}}.Encode()
	k.url = at.String()
	return k
}

// post returns the answer to a review. Redirects are followed, as upstream's client does.
func (k *caller) post(ctx context.Context, body []byte) ([]byte, error) {
	if k.broken != nil {
		return nil, k.broken
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for %d other reviews of this webhook: %w", reviewers, context.Cause(ctx))
	}
	for attempt := 0; ; attempt++ {
		answer, after, err := k.once(ctx, body)
		if after < 0 || attempt == retries {
			return answer, err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// once posts a review. after is not negative when the webhook asks to repeat it.
func (k *caller) once(ctx context.Context, body []byte) (answer []byte, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.url, bytes.NewReader(body))
	if err != nil {
		return nil, -1, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("User-Agent", "gapless")
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, -1, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is not wanted
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if gone := ctx.Err(); gone != nil {
		// A webhook that answers because the connection is closed may still be heard.
		return nil, -1, &url.Error{Op: "Post", URL: k.url, Err: gone}
	}
	switch {
	case err != nil:
		return nil, -1, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	case len(answer) > maxAnswer:
		return nil, -1, refused{fmt.Errorf("the answer has more than %d bytes", maxAnswer)}
	case resp.StatusCode >= 200 && resp.StatusCode <= 206:
		return answer, -1, nil
	}
	after = -1
	seconds, noNumber := strconv.Atoi(resp.Header.Get("Retry-After"))
	if noNumber == nil && seconds >= 0 && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode/100 == 5) {
		after = time.Duration(seconds) * time.Second
	}
	return nil, after, refusal(resp, answer, max(seconds, 0))
}

// refusal is the error for an answer with another code than 2xx: the Status in it, or a
// generic one (client-go rest.Result.Error).
func refusal(resp *http.Response, answer []byte, seconds int) error {
	var status metav1.Status
	if json.Unmarshal(answer, &status) == nil && status.Kind == "Status" && status.APIVersion == "v1" && status.Status != metav1.StatusSuccess {
		return &apierrors.StatusError{ErrStatus: status}
	}
	text := "unknown"
	given := resp.Header.Get("Content-Type")
	if form, _, err := mime.ParseMediaType(given); given == "" || err == nil && strings.HasPrefix(form, "text/") {
		text = strings.TrimSpace(string(answer[:min(len(answer), maxText)]))
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", text, seconds, true)
}
